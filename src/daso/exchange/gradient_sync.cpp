// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/gradient_sync.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/comm/peers.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

// Enough pieces that sending them there and back overlaps, but none so small that the way there
// counts more than what travels.
std::int64_t piece_elements(std::int64_t model, std::int64_t bucket) {
  constexpr std::int64_t kPieces = 40;
  constexpr std::int64_t kLeast = 1 << 14;  // 64 KB
  return std::min(std::max(model / kPieces, kLeast), std::max(bucket, kLeast));
}

}  // namespace

GradientSync::GradientSync(World& world, FlatModel& model, const GradientSyncOptions& options)
    : world_(world),
      model_(model),
      node_(world.node_link("gradients")),
      finite_(options.finite),
      slices_(world.topology().smallest_node()),
      piece_elements_(piece_elements(model.gradients().numel(), options.bucket_elements)),
      watch_(model, cut_buckets(model.parameter_spans(), options.bucket_elements),
             [this](std::size_t bucket) { worker_.post([this, bucket] { average(bucket); }); }),
      worker_("gradients") {
  const int nodes = world.topology().nodes();
  if (options.farthest == Reach::kNode || nodes == 1 || world.local_rank() >= slices_) return;
  const std::vector<int> leaders(static_cast<std::size_t>(nodes), world.local_rank());
  const Peers peers = peers_of(world, leaders, "gradients between nodes");
  for (Flight& flight : flights_) {
    flight.mean = std::make_unique<OrderedMean>(*peers.group, peers.shares);
  }
}

void GradientSync::begin(Reach reach, std::int64_t step) {
  reach_ = reach;
  step_ = step;
  watch_.arm();
}

void GradientSync::finish() {
  watch_.flush();
  worker_.post([this] { land_all(); });
  {
    const TimedSpan wait(world_.timeline(), Track::kWaiting, "gradients", step_, wait_seconds_);
    worker_.wait();
  }
  busy_seconds_ = worker_.busy_seconds();
  model_.check();
}

void GradientSync::average(std::size_t number) {
  const Bucket& bucket = watch_.buckets()[number];
  if (bucket.begin == bucket.end) return;  // only tensors without elements
  if (finite_) refuse_non_finite(bucket);
  // Nothing else touches this part of the flat gradients until finish().
  const at::Tensor gradients =
      model_.gradients().narrow(0, bucket.begin, bucket.end - bucket.begin);
  if (reach_ == Reach::kNode || world_.topology().nodes() == 1) {
    const Span span(world_.timeline(), Track::kBuckets, "bucket",
                    static_cast<std::int64_t>(number));
    average_over_node(gradients);
  } else {
    const std::int64_t all = gradients.numel();
    for (std::int64_t begin = 0; begin < all; begin += piece_elements_) {
      launch(number, gradients.narrow(0, begin, std::min(piece_elements_, all - begin)));
    }
  }
}

void GradientSync::average_over_node(const at::Tensor& gradients) {
  const Slices slices{.slices = node_.size()};
  node_.reduce(gradients, slices, world_.limit());
  node_.gather(gradients, slices, world_.limit());
}

void GradientSync::launch(std::size_t bucket, const at::Tensor& gradients) {
  Flight& flight = flights_[launched_++ % kFlights];
  flight.bucket = bucket;
  flight.begin = Clock::now();
  flight.gradients = gradients;
  node_.reduce(gradients, {.slices = slices_}, world_.limit());
  if (flight.mean) {
    const Segment own = segment_of(gradients.size(0), slices_, node_.rank());
    flight.slice = gradients.narrow(0, own.begin, own.length());
    flight.mean->start(flight.slice);
    bytes_between_nodes_ += flight.mean->bytes_sent(flight.slice);
  }
  // Older ones turn while this one is on its way, and still older ones land.
  if (launched_ - turned_ > kAhead) turn();
  if (turned_ - landed_ > kAhead) land();
}

void GradientSync::turn() {
  Flight& flight = flights_[turned_++ % kFlights];
  if (flight.mean) flight.mean->turn(world_.limit());
}

void GradientSync::land() {
  Flight& flight = flights_[landed_++ % kFlights];
  if (flight.mean) flight.mean->finish(world_.limit());
  node_.gather(flight.gradients, {.slices = slices_}, world_.limit());
  if (!world_.timeline().recording()) return;
  world_.timeline().add({.name = "bucket",
                         .track = Track::kBuckets,
                         .number = static_cast<std::int64_t>(flight.bucket),
                         .begin = flight.begin,
                         .end = Clock::now()});
}

void GradientSync::land_all() {
  while (turned_ < launched_) turn();
  while (landed_ < launched_) land();
  launched_ = turned_ = landed_ = 0;
}

// Before anything is averaged: afterwards every rank has it, and nobody knows whose it was.
void GradientSync::refuse_non_finite(const Bucket& bucket) const {
  const std::span<const float> all = floats(model_.gradients());
  const auto size = static_cast<std::size_t>(bucket.end - bucket.begin);
  if (all_finite(all.subspan(static_cast<std::size_t>(bucket.begin), size))) return;
  for (std::size_t i = bucket.first; i < bucket.first + bucket.spans; ++i) {
    const FlatSpan& span = model_.parameter_spans()[i];
    if (all_finite(all.subspan(static_cast<std::size_t>(span.offset),
                               static_cast<std::size_t>(span.elements)))) {
      continue;
    }
    throw Error(fmt::format(
        "the gradient of '{}' on rank {} (node {}) is not finite in step {}: the run has diverged; "
        "a smaller learning rate, a longer warm-up or gradient clipping may help",
        span.name, world_.rank(), world_.topology().name_of(world_.node()), step_));
  }
}

}  // namespace daso
