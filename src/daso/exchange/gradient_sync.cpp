// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/gradient_sync.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/kernels/digest.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

// Of a bucket: so many pieces are sent before the oldest is answered, and so many are answered
// before the oldest is received.
constexpr std::size_t kPiecesAhead = 4;

}  // namespace

GradientSync::GradientSync(World& world, FlatModel& model, const GradientSyncOptions& options,
                           const GradientWays& ways)
    : world_(world),
      model_(model),
      lane_(ways.lane ? ways.lane : open_lane(model.gradients().device())),
      node_(ways.node != nullptr ? *ways.node
                                 : world.node_link("gradients", model.gradients().device())),
      finite_(options.finite && model.gradients().is_cpu()),
      piece_elements_(gradient_piece(model.gradients().numel(), options.bucket_elements)),
      watch_(model, cut_buckets(model.parameter_spans(), options.bucket_elements),
             [this](std::size_t bucket) { hand_over(bucket); }),
      end_(*lane_),
      worker_("gradients") {
  if (options.farthest == Reach::kNode || world.topology().nodes() == 1) return;
  leaders_.emplace(world, ExchangeKind::kSharded, "gradients between nodes");
  world_mean_.emplace(world, node_, *lane_, *leaders_, kPiecesAhead);
}

void GradientSync::begin(Reach reach, std::int64_t step) {
  reach_ = reach;
  step_ = step;
  watch_.arm();
}

void GradientSync::finish() {
  watch_.flush();
  if (world_mean_) {
    worker_.post([this] { lane_->run([this] { world_mean_->finish(); }); });
  }
  {
    const Track track = reach_ == Reach::kWorld ? Track::kAllGradients : Track::kNodeGradients;
    const TimedSpan wait(world_.timeline(), track, "gradients", step_);
    worker_.wait();
  }
  lane_->lead_caller();
  busy_seconds_ = worker_.busy_seconds();
  model_.check();
}

Costs GradientSync::costs() const {
  return {.background_seconds = busy_seconds_,
          .bytes_between_nodes = world_mean_ ? world_mean_->bytes_between_nodes() : 0};
}

// On the thread that runs backward, whose stream has been given the last gradient of the bucket.
void GradientSync::hand_over(std::size_t bucket) {
  const bool travels = node_.size() > 1 || (reach_ == Reach::kWorld && world_mean_);
  if (!travels && !finite_) return;
  worker_.post([this, bucket, filled = lane_->mark_of_caller()] {
    lane_->follow(*filled);
    lane_->run([this, bucket] { average(bucket); });
  });
}

void GradientSync::average(std::size_t number) {
  const Bucket& bucket = watch_.buckets()[number];
  if (bucket.begin == bucket.end) return;  // only tensors without elements
  if (finite_) refuse_non_finite(bucket);
  // Nothing else touches this part of the flat gradients until finish().
  const at::Tensor gradients =
      model_.gradients().narrow(0, bucket.begin, bucket.end - bucket.begin);
  if (reach_ == Reach::kWorld && world_mean_) {
    average_over_world(number, gradients);
    return;
  }
  const Span span(world_.timeline(), Track::kBuckets, "bucket", static_cast<std::int64_t>(number));
  const Slices slices{.slices = node_.size()};
  node_.reduce(gradients, slices, world_.limit());
  node_.gather(gradients, slices, world_.limit());
}

void GradientSync::average_over_world(std::size_t bucket, const at::Tensor& gradients) {
  for (const Segment& piece : cut_in_pieces(gradients.size(0), piece_elements_)) {
    const auto show = [this, bucket, begin = Clock::now()] {
      if (!world_.timeline().recording()) return;
      world_.timeline().add({.name = "bucket",
                             .track = Track::kBuckets,
                             .number = static_cast<std::int64_t>(bucket),
                             .begin = begin,
                             .end = Clock::now()});
    };
    world_mean_->start_average_of_ranks(gradients.narrow(0, piece.begin, piece.length()), show);
  }
}

// Before anything is averaged: afterwards every rank has it, and nobody knows whose it was.
void GradientSync::refuse_non_finite(const Bucket& bucket) const {
  const std::span<const float> all = floats(model_.gradients());
  const Kernels& kernels = kernels_of(model_.gradients());
  const auto size = static_cast<std::size_t>(bucket.end - bucket.begin);
  if (all_finite(all.subspan(static_cast<std::size_t>(bucket.begin), size), kernels)) return;
  for (std::size_t i = bucket.first; i < bucket.first + bucket.spans; ++i) {
    const FlatSpan& span = model_.parameter_spans()[i];
    if (all_finite(all.subspan(static_cast<std::size_t>(span.offset),
                               static_cast<std::size_t>(span.elements)),
                   kernels)) {
      continue;
    }
    throw Error(fmt::format(
        "the gradient of '{}' on rank {} (node {}) is not finite in step {}: the run has diverged; "
        "a smaller learning rate, a longer warm-up or gradient clipping may help",
        span.name, world_.rank(), world_.topology().name_of(world_.node()), step_));
  }
}

}  // namespace daso
