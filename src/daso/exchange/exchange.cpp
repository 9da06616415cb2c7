// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/exchange.h"

#include <ATen/ATen.h>

#include <utility>

#include "daso/base/error.h"
#include "daso/exchange/copies.h"
#include "daso/kernels/merge.h"
#include "daso/tensor/device_span.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

static_assert(kFlatBlock == kBlockElements);

// Columns of a header.
constexpr std::int64_t kAnchorDigest = 0;
constexpr std::int64_t kOverflow = 1;  // not 0: an element cannot travel
constexpr std::int64_t kFirstBad = 2;  // which one, where there is such
constexpr std::int64_t kParametersDigest = 3;
constexpr std::int64_t kColumns = 4;

// A column, as kernels take it that give bits or a flag.
template <typename Word>
Word* column(const at::Tensor& header, std::int64_t number) {
  return reinterpret_cast<Word*>(header.mutable_data_ptr<std::int64_t>() + number);
}

// Rotating, every rank leads the whole model at times; sharded, a rank leads its slice throughout,
// or none.
std::optional<int> kept_by(ExchangeKind kind, const Leaders& leaders) {
  return kind == ExchangeKind::kRotating ? 0 : leaders.role(0).slice;
}

}  // namespace

Exchange::Exchange(World& world, const FlatModel& model, const Leaders& leaders,
                   const ExchangeOptions& options, std::unique_ptr<OuterRule> rule,
                   std::unique_ptr<Lane> lane)
    : world_(world),
      model_(model),
      leaders_(leaders),
      options_(options),
      rule_(std::move(rule)),
      lane_(lane ? std::move(lane) : open_lane(model.parameters().device())),
      on_host_(!lane_->copies()),
      views_(world.views()),
      node_(world.node_link(leaders.name())),
      mean_(world, node_, *lane_, leaders, /*ahead=*/kMostPieces),
      kept_(kept_by(options.kind, leaders)),
      rows_(model.parameters().numel() / kFlatBlock),
      width_(padded_rows(rows_of(0).length())),
      pieces_(pieces_of(kept_rows(), world.topology().nodes())),
      end_(*lane_),
      worker_("exchange") {
  const auto block = static_cast<std::int64_t>(encoded_bytes(options.wire, kBlockElements));
  const int nodes = world.topology().nodes();
  const at::TensorOptions there = model.parameters().options();
  if (on_host_ || rule_->needs_sent()) snapshot_ = large_zeros(model.parameters().sizes(), there);
  anchor_ = large_zeros({kept_rows(), kFlatBlock}, there);
  own_ = large_zeros({leaders.slices() * width_, block}, there.dtype(at::kChar));
  back_ = large_zeros(own_.sizes(), own_.options());
  header_ = at::zeros({1, kColumns}, there.dtype(at::kLong));
  own_here_ = lane_->host_room(own_);
  back_here_ = lane_->host_room(back_);
  header_here_ = lane_->host_room(header_);
  if (!on_host_) own_here_.zero_();  // the rows behind a slice are all zeros
  headers_ = at::zeros({nodes, kColumns}, at::kLong);
  residual_ = large_zeros({padded_rows(kept_rows()) / nodes, kFlatBlock}, at::kFloat);
  next_residual_ = large_zeros(residual_.sizes(), at::kFloat);
}

Segment Exchange::rows_of(int slice) const { return segment_of(rows_, leaders_.slices(), slice); }

std::int64_t Exchange::padded_rows(std::int64_t rows) const {
  const int nodes = world_.topology().nodes();
  return segment_of(rows, nodes, 0).length() * nodes;
}

std::int64_t Exchange::kept_rows() const { return kept_ ? rows_of(*kept_).length() : 0; }

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
  return kept_ == slice ? floats(anchor_) : std::span<float>();
}

void Exchange::set_anchor() {
  if (!kept_) return;
  const Segment rows = rows_of(*kept_);
  anchor_.copy_(model_.parameters().view({rows_, kFlatBlock}).narrow(0, rows.begin, rows.length()));
}

bool Exchange::start(std::int64_t exchange) {
  DASO_ASSERT(!in_flight_);
  const Start start = views_ == nullptr ? Start::kGoes : views_->start(exchange);
  if (start == Start::kEnded) return false;
  const Span span(world_.timeline(), Track::kTraining, "start exchange", exchange);
  in_flight_ = true;
  settled_ = false;
  exchange_ = exchange;
  nodes_in_flight_ = world_.topology().nodes();
  if (nodes_in_flight_ == 1) set_anchor();
  started_ = Clock::now();
  const Role& role = leaders_.role(leaders_.role_of(exchange));
  if (snapshot_.defined()) snapshot_.copy_(model_.parameters());
  if (!on_host_) {
    const DeviceSpan encoding(world_.timeline(), *lane_, DeviceSpan::Of::kCaller, "encode",
                              exchange);
    encode(role, model_.parameters());
  }
  if (start == Start::kInVain) return true;
  worker_.post([this, &role, started = lane_->mark_of_caller()] {
    run(role, *started);
    if (views_ != nullptr) views_->prepared(exchange_);
  });
  return true;
}

void Exchange::encode(const Role& role, const at::Tensor& parameters) {
  const Kernels& kernels = kernels_of(parameters);
  header_.zero_();
  if (node_.size() > 1) {
    kernels.digest({.values = floats(parameters).data(),
                    .elements = floats(parameters).size(),
                    .digest = column<std::uint64_t>(header_, kParametersDigest)});
  }
  if (!role.slice) return;
  const std::span<const float> values = elements(parameters, *role.slice);
  const std::span<const float> anchor = anchor_of(*role.slice);
  kernels.of(options_.wire)
      .encode({.values = values.data(),
               .anchor = anchor.data(),
               .encoded = encoded(own_, *role.slice).data(),
               .blocks = values.size() / kBlockElements,
               .draws = draws_of(world_.node_id(), rows_of(*role.slice).begin),
               .overflow = column<std::uint32_t>(header_, kOverflow)});
  kernels.digest({.values = anchor.data(),
                  .elements = anchor.size(),
                  .digest = column<std::uint64_t>(header_, kAnchorDigest)});
}

void Exchange::check() {
  try {
    worker_.check();
  } catch (const PeerError&) {
    if (views_ == nullptr) throw;
    // Whether the view has ended the launchers know better: settle() asks them.
  }
}

bool Exchange::answer_is_here() {
  try {
    worker_.wait();
    return true;
  } catch (const PeerError& error) {
    if (views_ == nullptr) throw;
    views_->trouble(error.what());
    return false;
  }
}

bool Exchange::settle() {
  if (!in_flight_ || settled_) return in_flight_;
  const bool here = answer_is_here();
  settled_ = views_ == nullptr || views_->committed(exchange_);
  DASO_ASSERT(here || !settled_);  // nobody commits what a node has not prepared
  if (settled_) return true;
  lane_->lead_caller();  // copies of what nobody needs any more are still on their way
  in_flight_ = false;
  next_distance_.reset();
  return false;
}

bool Exchange::merge(std::int64_t staleness) {
  DASO_ASSERT(in_flight_);
  Timeline& timeline = world_.timeline();
  {
    const TimedSpan wait(timeline, Track::kMerge, "exchange", exchange_);
    if (!settle()) return false;
  }
  lane_->lead_caller();
  const Span span(timeline, Track::kTraining, "merge", exchange_);
  if (timeline.recording()) {
    timeline.add({.name = "exchange",
                  .track = Track::kInFlight,
                  .number = exchange_,
                  .begin = started_,
                  .end = Clock::now()});
  }
  in_flight_ = false;
  costs_.background_seconds = worker_.busy_seconds();
  costs_.bytes_between_nodes = mean_.bytes_between_nodes();
  if (next_distance_) distance_ = std::exchange(next_distance_, std::nullopt);
  if (nodes_in_flight_ == 1) return true;
  tell_answer();
  std::swap(residual_, next_residual_);
  const DeviceSpan device_span(timeline, *lane_, DeviceSpan::Of::kCaller, "merge", exchange_);
  for (int slice = 0; slice < leaders_.slices(); ++slice) {
    rule_->apply({.merge = {.wire = options_.wire,
                            .own = encoded(own_, slice),
                            .back = encoded(back_, slice),
                            .parameters = elements(model_.parameters(), slice),
                            .anchor = anchor_of(slice)},
                  .sent = snapshot_.defined() ? elements(snapshot_, slice) : std::span<float>(),
                  .staleness = staleness,
                  .nodes = nodes_in_flight_,
                  .kernels = kernels_of(model_.parameters())});
  }
  return true;
}

void Exchange::run(const Role& role, const LaneMark& started) {
  Timeline& timeline = world_.timeline();
  NodeLink* const home = views_ == nullptr ? nullptr : &node_;
  {
    const Span span(timeline, Track::kExchange, "encode", exchange_);
    if (on_host_) encode(role, snapshot_);
    lane_->follow(started);
    lane_->copy(header_here_, header_);
    const std::shared_ptr<LaneMark> copied = lane_->mark();
    wait_for_nodes(home, world_.limit(), [&] {
      world_.wait_until([&] { return copied->reached(); }, "encoding an exchange");
    });
  }
  if (node_.size() > 1) {
    const Span span(timeline, Track::kExchange, "compare in node", exchange_);
    // On a device they have moved on since, each rank's by itself: no tensor can be named.
    check_equal_in_node(world_, node_, model_,
                        *column<std::int64_t>(header_here_, kParametersDigest),
                        on_host_ ? snapshot_ : at::Tensor(), exchange_);
  }
  if (nodes_in_flight_ == 1) return;
  wait_for_nodes(home, world_.limit(), [&] {
    if (role.slice) exchange_with_peers(role);
  });
  if (node_.size() == 1) return;
  const Span span(timeline, Track::kExchange, "gather in node", exchange_);
  node_.gather(own_here_, role.slices, world_.limit());
  node_.gather(back_here_, role.slices, world_.limit());
  const DeviceSpan copies(timeline, *lane_, DeviceSpan::Of::kLane, "copy from the host", exchange_);
  lane_->copy(own_, own_here_);
  lane_->copy(back_, back_here_);
}

void Exchange::exchange_with_peers(const Role& role) {
  Timeline& timeline = world_.timeline();
  Communicator& peers = *role.peers.group;
  const int slice = *role.slice;
  const std::int64_t rows = padded_rows(kept_rows());  // those behind the slice's are all zeros
  const auto of_slice = [&](const at::Tensor& all) { return all.narrow(0, slice * width_, rows); };
  next_residual_.copy_(residual_);
  if (*column<std::int64_t>(header_here_, kOverflow) != 0) {
    *column<std::int64_t>(header_here_, kFirstBad) = first_bad(slice);
  }
  std::vector<std::shared_ptr<LaneMark>> down;
  for (const Segment& piece : pieces_) {
    const DeviceSpan copy(timeline, *lane_, DeviceSpan::Of::kLane, "copy to the host", exchange_);
    lane_->copy(piece_of(of_slice(own_here_), piece), piece_of(of_slice(own_), piece));
    down.push_back(lane_->mark());
  }

  std::optional<Span> span(std::in_place, timeline, Track::kExchange, "send", exchange_);
  span->talked_to(peers.world_ranks());
  Pending headers = peers.all_gather(header_here_, headers_);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Segment& piece = pieces_[i];
    const auto rule = [&, piece](const at::Tensor& received, const at::Tensor& answer) {
      if (piece.begin == 0) {
        // Before the first answer leaves: peers may have it before this thread goes on.
        span.emplace(timeline, Track::kExchange, "send back", exchange_);
        span->talked_to(peers.world_ranks());
      }
      average(role, piece, received, answer);
    };
    const at::Tensor back = piece_of(of_slice(back_here_), piece);
    world_.wait_until([&] { return down[i]->reached(); }, "copying an exchange to the host");
    mean_.start(exchange_, {.input = piece_of(of_slice(own_here_), piece),
                            .output = back,
                            .rule = rule,
                            .done = [this, back, up = piece_of(of_slice(back_), piece)] {
                              const DeviceSpan copy(world_.timeline(), *lane_,
                                                    DeviceSpan::Of::kLane, "copy from the host",
                                                    exchange_);
                              lane_->copy(up, back);
                            }});
  }
  compare_headers(role, std::move(headers));
  mean_.finish();
  span.emplace(timeline, Track::kExchange, "distance", exchange_);
  next_distance_ =
      daso::distance(options_.wire, encoded(own_here_, slice), encoded(back_here_, slice));
}

Draws Exchange::draws_of(std::int64_t sender, std::int64_t first_row) const {
  return {.key = draw_key(options_.seed, exchange_, sender),
          .first_block = static_cast<std::uint64_t>(first_row)};
}

std::int64_t Exchange::first_bad(int slice) const {
  if (!on_host_) return -1;  // the parameters have moved on since
  const auto place = first_non_finite(options_.wire, elements(snapshot_, slice), anchor_of(slice));
  return rows_of(slice).begin * kFlatBlock + static_cast<std::int64_t>(place.value_or(0));
}

std::string Exchange::name_at(std::int64_t element) const {
  if (element < 0) return "a parameter";
  const FlatSpan* span = span_at(model_.parameter_spans(), element);
  return fmt::format("'{}'", span == nullptr ? "the padding" : span->name);
}

// Copies of the anchor are equal on all nodes, or every later mean is wrong; and what is not finite
// would be everywhere after the merge.
void Exchange::compare_headers(const Role& role, Pending arriving) {
  std::move(arriving).wait(world_.limit());
  const auto headers = headers_.accessor<std::int64_t, 2>();
  const Topology& topology = world_.topology();
  bool equal = true;
  for (int node = 0; node < topology.nodes(); ++node) {
    const auto header = headers[role.peers.shares[static_cast<std::size_t>(node)].rank];
    equal = equal && header[kAnchorDigest] == headers[0][kAnchorDigest];
    if (header[kOverflow] == 0) continue;
    throw Error(fmt::format(
        "exchange {}: the change of {} on node {} is not finite on the wire {}: the run has "
        "diverged; a smaller learning rate or, on fp16, another wire may help",
        exchange_, name_at(header[kFirstBad]), topology.name_of(node), name_of(options_.wire)));
  }
  if (equal) return;
  const at::Tensor anchor = anchor_.cpu();
  throw_unequal(world_, *role.peers.group, model_,
                {.values = host_floats(anchor), .begin = rows_of(*role.slice).begin * kFlatBlock},
                fmt::format("exchange {}: the nodes' copies of the anchor", exchange_));
}

// The owner's rule: the mean of the encoded differences, encoded again; what that leaves out is
// next_residual_.
void Exchange::average(const Role& role, const Segment& piece, const at::Tensor& received,
                       const at::Tensor& answer) {
  const std::size_t size = answer.nbytes();
  std::vector<Difference> differences;
  for (const Share& share : role.peers.shares) {
    const std::size_t begin = static_cast<std::size_t>(share.rank) * size;
    differences.push_back(
        {.encoded = bytes(received).subspan(begin, size), .weight = share.weight});
  }
  const Communicator& peers = *role.peers.group;
  const Draws draws =
      draws_of(kMeanSender, rows_of(*role.slice).begin + piece.begin +
                                segment_of(piece.length(), peers.size(), peers.rank()).begin);
  if (daso::average(options_.wire, differences, floats(owned_of(next_residual_, piece)),
                    bytes(answer), draws)) {
    return;
  }
  throw Error(fmt::format(
      "exchange {}: the mean of what the nodes sent is not finite on the wire {}: the run has "
      "diverged",
      exchange_, name_of(options_.wire)));
}

std::vector<at::Tensor> Exchange::residuals() const {
  // Rotating is for fp32, which leaves nothing out.
  if (options_.kind == ExchangeKind::kRotating || !kept_) return {};
  const Communicator& peers = *leaders_.role(0).peers.group;
  std::vector<at::Tensor> residuals;
  for (const Segment& piece : pieces_) {
    const Segment own = segment_of(piece.length(), peers.size(), peers.rank());
    residuals.push_back(owned_of(residual_, piece).narrow(0, 0, own.length()));
  }
  return residuals;
}

}  // namespace daso
