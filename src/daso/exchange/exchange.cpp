// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/exchange.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "daso/base/error.h"
#include "daso/exchange/copies.h"
#include "daso/exchange/pieces.h"
#include "daso/kernels/digest.h"
#include "daso/kernels/merge.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

static_assert(kFlatBlock == kBlockElements);

std::span<std::int64_t> integers(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(tensor.numel())};
}

std::int64_t digest(std::span<const float> values) {
  return std::bit_cast<std::int64_t>(digest_of(values));
}

// Columns of a header.
constexpr std::size_t kAnchorDigest = 0;
constexpr std::size_t kFirstBad = 1;  // the first element that cannot travel, or kNone
constexpr std::int64_t kNone = -1;

}  // namespace

Exchange::Exchange(World& world, const FlatModel& model, const Leaders& leaders,
                   const ExchangeOptions& options)
    : world_(world),
      model_(model),
      leaders_(leaders),
      options_(options),
      node_(world.node_link("exchange")),
      rows_(model.parameters().numel() / kFlatBlock),
      width_(padded_rows(rows_of(0).length())),
      pieces_(pieces_of(own_rows(), world.topology().nodes())),
      worker_("exchange") {
  const auto block = static_cast<std::int64_t>(encoded_bytes(options.wire, kBlockElements));
  const int nodes = world.topology().nodes();
  std::int64_t anchor_rows = 0;
  for (int slice = 0; slice < leaders.slices(); ++slice) {
    if (keeps(slice)) anchor_rows += rows_of(slice).length();
  }
  snapshot_ = large_zeros(model.parameters().sizes(), at::kFloat);
  anchor_ = large_zeros({anchor_rows, kFlatBlock}, at::kFloat);
  own_ = large_zeros({leaders.slices() * width_, block}, at::kChar);
  back_ = large_zeros({leaders.slices() * width_, block}, at::kChar);
  const std::int64_t padded = padded_rows(own_rows());
  received_ = large_zeros({padded, block}, at::kChar);
  answer_ = large_zeros({padded / nodes, block}, at::kChar);
  residual_ = large_zeros({padded / nodes, kFlatBlock}, at::kFloat);
  digests_ = at::zeros({node_.size()}, at::kLong);
  header_ = at::zeros({1, 2}, at::kLong);
  headers_ = at::zeros({nodes, 2}, at::kLong);
  for (std::size_t i = 0; i < leaders.turns(); ++i) {
    Communicator* peers = leaders.turn(i).peers.group;
    std::vector<Spread>& spreads = spreads_.emplace_back();
    for (std::size_t j = 0; peers != nullptr && j < pieces_.size(); ++j)
      spreads.emplace_back(*peers);
  }
}

Segment Exchange::rows_of(int slice) const { return segment_of(rows_, leaders_.slices(), slice); }

std::int64_t Exchange::padded_rows(std::int64_t rows) const {
  const int nodes = world_.topology().nodes();
  return segment_of(rows, nodes, 0).length() * nodes;
}

// Rotating, every rank has its turn; sharded, a rank has its slice throughout, or none.
bool Exchange::keeps(int slice) const {
  return options_.kind == ExchangeKind::kRotating || leaders_.turn(0).slice == slice;
}

std::int64_t Exchange::own_rows() const {
  for (int slice = 0; slice < leaders_.slices(); ++slice) {
    if (keeps(slice)) return rows_of(slice).length();
  }
  return 0;
}

at::Tensor Exchange::piece_of(const at::Tensor& slice, const Segment& piece) const {
  return slice.narrow(0, piece.begin, padded_rows(piece.length()));
}

at::Tensor Exchange::owned_of(const at::Tensor& segments, const Segment& piece) const {
  const int nodes = world_.topology().nodes();
  return segments.narrow(0, piece.begin / nodes, padded_rows(piece.length()) / nodes);
}

std::span<std::byte> Exchange::encoded(const at::Tensor& all, int slice) const {
  const auto block = static_cast<std::size_t>(all.size(1));
  return bytes(all).subspan(static_cast<std::size_t>(slice * width_) * block,
                            static_cast<std::size_t>(rows_of(slice).length()) * block);
}

std::span<float> Exchange::elements(const at::Tensor& flat, int slice) const {
  const Segment rows = rows_of(slice);
  return floats(flat).subspan(static_cast<std::size_t>(rows.begin * kFlatBlock),
                              static_cast<std::size_t>(rows.length() * kFlatBlock));
}

std::span<float> Exchange::anchor_of(int slice) const {
  return keeps(slice) ? floats(anchor_) : std::span<float>();
}

void Exchange::set_anchor() {
  for (int slice = 0; slice < leaders_.slices(); ++slice) {
    const std::span<float> anchor = anchor_of(slice);
    if (anchor.empty()) continue;
    const std::span<const float> now = elements(model_.parameters(), slice);
    std::copy(now.begin(), now.end(), anchor.begin());
  }
}

void Exchange::start(std::int64_t exchange) {
  const Span span(world_.timeline(), Track::kTraining, "start exchange", exchange);
  exchange_ = exchange;
  started_ = Clock::now();
  const std::span<const float> now = floats(model_.parameters());
  std::copy(now.begin(), now.end(), floats(snapshot_).begin());
  worker_.post([this, exchange] { work(leaders_.turn(leaders_.turn_of(exchange))); });
}

void Exchange::merge(std::int64_t staleness) {
  Timeline& timeline = world_.timeline();
  {
    const TimedSpan wait(timeline, Track::kWaiting, "exchange", exchange_, wait_seconds_);
    worker_.wait();
  }
  const Span span(timeline, Track::kTraining, "merge", exchange_);
  if (timeline.recording()) {
    timeline.add({.name = "exchange",
                  .track = Track::kInFlight,
                  .number = exchange_,
                  .begin = started_,
                  .end = Clock::now()});
  }
  busy_seconds_ = worker_.busy_seconds();
  bytes_between_nodes_ += std::exchange(sent_, 0);
  if (talked_distance_) distance_ = std::exchange(talked_distance_, std::nullopt);
  for (int slice = 0; slice < leaders_.slices(); ++slice) {
    const Merge merge{.wire = options_.wire,
                      .own = encoded(own_, slice),
                      .back = encoded(back_, slice),
                      .parameters = elements(model_.parameters(), slice),
                      .anchor = anchor_of(slice)};
    if (options_.merge == MergeRule::kCorrected) {
      merge_corrected(merge);
    } else {
      merge_paper(merge, {.sent = elements(snapshot_, slice),
                          .staleness = static_cast<int>(staleness),
                          .peers = world_.topology().nodes()});
    }
  }
}

void Exchange::work(const Turn& turn) {
  {
    const Span span(world_.timeline(), Track::kExchange, "compare in node", exchange_);
    compare_in_node();
  }
  if (turn.slice) talk(turn);
  const Span span(world_.timeline(), Track::kExchange, "gather in node", exchange_);
  node_.gather(own_, turn.slices, world_.limit());
  node_.gather(back_, turn.slices, world_.limit());
}

void Exchange::compare_in_node() {
  if (node_.size() == 1) return;
  const Slices by_rank{.slices = node_.size()};
  const std::span<std::int64_t> digests = integers(digests_);
  digests[static_cast<std::size_t>(node_.rank())] = digest(floats(snapshot_));
  node_.gather(digests_, by_rank, world_.limit());
  if (std::adjacent_find(digests.begin(), digests.end(), std::not_equal_to<>()) == digests.end()) {
    return;
  }
  const std::vector<FlatSpan>& spans = model_.parameter_spans();
  const at::Tensor by_tensor =
      at::zeros({node_.size(), static_cast<std::int64_t>(spans.size())}, at::kLong);
  by_tensor[node_.rank()].copy_(digests_by_tensor(spans, floats(snapshot_), 0));
  node_.gather(by_tensor, by_rank, world_.limit());
  const auto difference = first_difference(spans, by_tensor);
  const std::vector<int>& ranks = world_.topology().ranks_of(world_.node());
  throw Error(fmt::format(
      "exchange {}: the parameters of node {} are not the same on all its ranks, though they got "
      "the same gradients: '{}' on rank {} differs from that on rank {}",
      exchange_, world_.topology().name_of(world_.node()),
      difference ? difference->tensor : "the padding",
      ranks[difference ? static_cast<std::size_t>(difference->copy) : 1], ranks[0]));
}

void Exchange::talk(const Turn& turn) {
  Timeline& timeline = world_.timeline();
  Communicator& peers = *turn.peers.group;
  const int slice = *turn.slice;
  const std::int64_t rows = received_.size(0);  // those behind the slice's own are all zeros
  const at::Tensor own = own_.narrow(0, slice * width_, rows);
  const at::Tensor back = back_.narrow(0, slice * width_, rows);

  std::optional<Span> span(std::in_place, timeline, Track::kExchange, "encode", exchange_);
  integers(header_)[kFirstBad] = encode_slice(slice);
  integers(header_)[kAnchorDigest] = digest(anchor_of(slice));

  span.emplace(timeline, Track::kExchange, "send", exchange_);
  span->talked_to(peers.world_ranks());
  Pending headers = peers.all_gather(header_, headers_);
  std::vector<Pending> sent;
  for (const Segment& piece : pieces_) {
    sent.push_back(peers.all_to_all(piece_of(own, piece), piece_of(received_, piece)));
  }
  compare_between_nodes(turn, std::move(headers));
  std::vector<Pending> answered;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    std::move(sent[i]).wait(world_.limit());
    if (i == 0) {
      // Before the first answer leaves: peers may have it before this thread goes on.
      span.emplace(timeline, Track::kExchange, "send back", exchange_);
      span->talked_to(peers.world_ranks());
    }
    average(turn, pieces_[i]);
    Spread& spread = spreads_[leaders_.turn_of(exchange_)][i];
    answered.push_back(spread(owned_of(answer_, pieces_[i]), piece_of(back, pieces_[i])));
  }
  for (Pending& answer : answered) std::move(answer).wait(world_.limit());
  span.emplace(timeline, Track::kExchange, "distance", exchange_);
  talked_distance_ = distance_in(slice);
  sent_ = 2 * (peers.size() - 1) * static_cast<std::int64_t>(answer_.nbytes());
}

Draws Exchange::draws_of(std::int64_t sender, std::int64_t first_row) const {
  return {.key = draw_key(options_.seed, exchange_, sender),
          .first_block = static_cast<std::uint64_t>(first_row)};
}

std::int64_t Exchange::encode_slice(int slice) {
  const std::span<const float> values = elements(snapshot_, slice);
  const std::span<const float> anchor = anchor_of(slice);
  const Draws draws = draws_of(world_.node(), rows_of(slice).begin);
  if (encode(options_.wire, values, anchor, encoded(own_, slice), draws)) return kNone;
  const auto place = first_non_finite(options_.wire, values, anchor);
  return rows_of(slice).begin * kFlatBlock + static_cast<std::int64_t>(place.value_or(0));
}

// Copies of the anchor are equal on all nodes, or every later mean is wrong; and what is not finite
// would be everywhere after the merge.
void Exchange::compare_between_nodes(const Turn& turn, Pending arriving) {
  Communicator& peers = *turn.peers.group;
  const std::vector<FlatSpan>& spans = model_.parameter_spans();
  std::move(arriving).wait(world_.limit());
  const auto headers = headers_.accessor<std::int64_t, 2>();
  const Topology& topology = world_.topology();
  bool equal = true;
  for (int node = 0; node < topology.nodes(); ++node) {
    const auto header = headers[turn.peers.shares[static_cast<std::size_t>(node)].rank];
    equal = equal && header[kAnchorDigest] == headers[0][kAnchorDigest];
    if (header[kFirstBad] == kNone) continue;
    const FlatSpan* span = span_at(spans, header[kFirstBad]);
    throw Error(fmt::format(
        "exchange {}: the change of '{}' on node {} is not finite on the wire {}: the run has "
        "diverged; a smaller learning rate or, on fp16, another wire may help",
        exchange_, span == nullptr ? "the padding" : span->name, topology.name_of(node),
        name_of(options_.wire)));
  }
  if (equal) return;
  const at::Tensor by_tensor =
      at::zeros({peers.size(), static_cast<std::int64_t>(spans.size())}, at::kLong);
  const at::Tensor own =
      digests_by_tensor(spans, anchor_of(*turn.slice), rows_of(*turn.slice).begin * kFlatBlock);
  peers.all_gather(own.view({1, -1}), by_tensor).wait(world_.limit());
  const auto difference = first_difference(spans, by_tensor);
  const auto node_of = [&](std::int64_t peer) {
    return topology.name_of(topology.node_of(peers.world_ranks()[static_cast<std::size_t>(peer)]));
  };
  throw Error(fmt::format(
      "exchange {}: the nodes' copies of the anchor are not the same: '{}' on node {} differs from "
      "that on node {}",
      exchange_, difference ? difference->tensor : "the padding",
      node_of(difference ? difference->copy : 1), node_of(0)));
}

void Exchange::average(const Turn& turn, const Segment& piece) {
  const at::Tensor answer = owned_of(answer_, piece);
  const at::Tensor terms = piece_of(received_, piece);
  const std::span<const std::byte> received = bytes(terms);
  const std::size_t size = answer.nbytes();
  std::vector<Difference> differences;
  for (const Share& share : turn.peers.shares) {
    const std::size_t begin = static_cast<std::size_t>(share.rank) * size;
    differences.push_back({.encoded = received.subspan(begin, size), .weight = share.weight});
  }
  const Communicator& peers = *turn.peers.group;
  const Draws draws =
      draws_of(kMeanSender, rows_of(*turn.slice).begin + piece.begin +
                                segment_of(piece.length(), peers.size(), peers.rank()).begin);
  if (daso::average(options_.wire, differences, floats(owned_of(residual_, piece)), bytes(answer),
                    draws)) {
    return;
  }
  throw Error(fmt::format(
      "exchange {}: the mean of what the nodes sent is not finite on the wire {}: the run has "
      "diverged",
      exchange_, name_of(options_.wire)));
}

double Exchange::distance_in(int slice) const {
  const std::span<const std::byte> own = encoded(own_, slice);
  const std::span<const std::byte> back = encoded(back_, slice);
  const auto block = static_cast<std::size_t>(own_.size(1));
  std::array<float, kBlockElements> sent{};
  std::array<float, kBlockElements> mean{};
  double sum = 0;
  for (std::size_t at = 0; at < own.size(); at += block) {
    decode(options_.wire, own.subspan(at, block), sent);
    decode(options_.wire, back.subspan(at, block), mean);
    std::array<float, 16> lanes{};  // so that the compiler may add several at once
    for (std::size_t i = 0; i < kBlockElements; ++i) {
      const float difference = mean[i] - sent[i];
      lanes[i % lanes.size()] += difference * difference;
    }
    sum += std::accumulate(lanes.begin(), lanes.end(), 0.0);
  }
  const auto elements = static_cast<double>(own.size() / block * kBlockElements);
  return elements == 0 ? 0 : std::sqrt(sum / elements);
}

std::vector<at::Tensor> Exchange::residuals() const {
  const Turn& turn = leaders_.turn(0);
  // Rotating is for fp32, which leaves nothing out.
  if (options_.kind == ExchangeKind::kRotating || !turn.slice) return {};
  const Communicator& peers = *turn.peers.group;
  std::vector<at::Tensor> residuals;
  for (const Segment& piece : pieces_) {
    const Segment own = segment_of(piece.length(), peers.size(), peers.rank());
    residuals.push_back(owned_of(residual_, piece).narrow(0, 0, own.length()));
  }
  return residuals;
}

State Exchange::state(bool in_flight) {
  State state;
  if (in_flight) {
    worker_.wait();
    state["exchange.own"] = own_.clone();
    state["exchange.back"] = back_.clone();
    if (options_.merge == MergeRule::kPaper) state["exchange.sent"] = snapshot_.clone();
  }
  state["exchange.anchor"] = anchor_.clone();
  state["exchange.rest"] = residual_.clone();
  return state;
}

void Exchange::load_state(const State& state, bool in_flight) {
  restore(state, "exchange.anchor", anchor_);
  restore(state, "exchange.rest", residual_);
  if (!in_flight) return;
  started_ = Clock::now();  // for people to see: it began in another process
  restore(state, "exchange.own", own_);
  restore(state, "exchange.back", back_);
  if (options_.merge == MergeRule::kPaper) restore(state, "exchange.sent", snapshot_);
}

}  // namespace daso
