// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/hierarchical_mean.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "daso/base/error.h"
#include "daso/comm/operation.h"
#include "daso/tensor/flat_model.h"

namespace daso {

Costs& Costs::operator+=(const Costs& other) {
  background_seconds += other.background_seconds;
  bytes_between_nodes += other.bytes_between_nodes;
  return *this;
}

Costs operator+(Costs sum, const Costs& other) { return sum += other; }

void wait_for_nodes(NodeLink* home, Seconds limit, const std::function<void()>& task) {
  if (home == nullptr) return task();
  std::exception_ptr failure;
  try {
    task();
  } catch (const PeerError&) {
    failure = std::current_exception();
  }
  const at::Tensor failed = at::zeros({home->size()}, at::kLong);
  if (failure) failed[home->rank()] = 1;
  home->gather(failed, {.slices = home->size()}, limit);
  if (failure) std::rethrow_exception(failure);
  if (failed.sum().item<std::int64_t>() == 0) return;
  throw PeerError("another rank of this node has lost one of another node");
}

HierarchicalMean::HierarchicalMean(World& world, NodeLink& node, Lane& lane, const Leaders& leaders,
                                   std::size_t ahead)
    : world_(world),
      node_(node),
      lane_(lane),
      leaders_(leaders),
      ahead_(ahead),
      home_(world.views() == nullptr ? nullptr : &world.node_link(leaders.name())),
      flights_(2 * ahead + 1),
      reductions_(leaders.roles()) {
  for (std::size_t number = 0; number < leaders.roles(); ++number) {
    Communicator* peers = leaders.role(number).peers.group;
    if (peers == nullptr) continue;
    SentSums* const sums =
        world.carries_checked() ? nullptr : &sums_.try_emplace(number, *peers).first->second;
    for (std::size_t i = 0; i < flights_.size(); ++i)
      reductions_[number].emplace_back(*peers, sums);
  }
}

void HierarchicalMean::start(std::int64_t exchange, Piece piece) {
  start_flight(exchange, std::move(piece), /*of_ranks=*/false);
}

void HierarchicalMean::start_flight(std::int64_t exchange, Piece piece, bool of_ranks) {
  Flight& flight = this->flight(sent_);
  flight = {.piece = std::move(piece), .of_ranks = of_ranks};
  if (flight.piece.input.defined()) {
    exchange_ = exchange;
    flight.reduce = &reductions_[leaders_.role_of(exchange)].at(sent_ % flights_.size());
    try_for(flight, [&] {
      flight.reduce->send(flight.piece.input, flight.piece.output);
      bytes_between_nodes_ += flight.reduce->bytes_sent();
    });
  }
  ++sent_;
  if (sent_ - answered_ > ahead_) answer_oldest();
  if (answered_ - received_ > ahead_) receive_oldest();
}

void HierarchicalMean::finish() {
  const auto sums = exchange_ ? sums_.find(leaders_.role_of(*exchange_)) : sums_.end();
  if (sums != sums_.end()) sums->second.tell();
  while (answered_ < sent_) answer_oldest();
  while (received_ < sent_) receive_oldest();
  sent_ = answered_ = received_ = 0;
  if (sums != sums_.end()) refuse_damaged(sums->second);
  exchange_.reset();
}

void HierarchicalMean::refuse_damaged(SentSums& sums) {
  const std::optional<int> sender = sums.damaged(world_.limit());
  if (!sender) return;
  const Communicator& peers = *leaders_.role(leaders_.role_of(*exchange_)).peers.group;
  const int from = peers.world_ranks()[static_cast<std::size_t>(*sender)];
  const Topology& topology = world_.topology();
  const Failure told = world_.guard().lookout->ring(fmt::format(
      "what rank {} (node {}) sent to rank {} (node {}) in group '{}' was damaged on its way", from,
      topology.name_of(topology.node_of(from)), world_.rank(), topology.name_of(world_.node()),
      peers.name()));
  throw PeerError(told.text);
}

void HierarchicalMean::try_for(Flight& flight, const std::function<void()>& task) {
  if (!flight.of_ranks || home_ == nullptr) return task();
  if (flight.failure) return;
  try {
    task();
  } catch (const PeerError&) {
    flight.failure = std::current_exception();
  }
}

void HierarchicalMean::answer_oldest() {
  Flight& oldest = flight(answered_++);
  if (oldest.reduce == nullptr) return;
  try_for(oldest, [&] { oldest.reduce->answer(oldest.piece.rule, world_.limit()); });
}

void HierarchicalMean::receive_oldest() {
  Flight& oldest = flight(received_++);
  if (oldest.reduce != nullptr) try_for(oldest, [&] { oldest.reduce->receive(world_.limit()); });
  if (oldest.of_ranks) {
    wait_for_nodes(home_, world_.limit(), [&] {
      if (oldest.failure) std::rethrow_exception(oldest.failure);
    });
  }
  if (oldest.piece.done) oldest.piece.done();
  oldest.piece = {};  // lets go of the tensors
}

at::Tensor HierarchicalMean::on_host(const at::Tensor& tensor) {
  at::Tensor copy = lane_.host_room(tensor);
  lane_.copy(copy, tensor);
  const std::shared_ptr<LaneMark> copied = lane_.mark();
  world_.wait_until([&] { return copied->reached(); }, "copying to the host");
  return copy;
}

void HierarchicalMean::start_average_of_ranks(const at::Tensor& tensor, Done done) {
  const Role& role = leaders_.role(0);
  node_.reduce(tensor, role.slices, world_.limit());
  Piece piece;
  if (role.slice) {
    const Segment own = segment_of(tensor.size(0), role.slices.slices, *role.slice);
    piece.input = piece.output = on_host(tensor.narrow(0, own.begin, own.length()));
    piece.rule = [&role](const at::Tensor& received, const at::Tensor& mean) {
      mean_in_order(role.peers.shares, received, mean);
    };
  }
  piece.done = [this, &role, tensor, mean = piece.output, done = std::move(done)] {
    if (role.slice) {
      const Segment own = segment_of(tensor.size(0), role.slices.slices, *role.slice);
      lane_.copy(tensor.narrow(0, own.begin, own.length()), mean);
    }
    node_.gather(tensor, role.slices, world_.limit());
    done();
  };
  start_flight(/*exchange=*/0, std::move(piece), /*of_ranks=*/true);
}

void HierarchicalMean::average_of_nodes(const at::Tensor& tensor, std::int64_t exchange,
                                        const std::vector<at::Tensor>& residuals) {
  const Role& role = leaders_.role(leaders_.role_of(exchange));
  const at::Tensor rows = tensor.view({-1, kFlatBlock});
  wait_for_nodes(home_, world_.limit(), [&] {
    if (!role.slice) return;
    const Segment own = segment_of(rows.size(0), role.slices.slices, *role.slice);
    const std::vector<Segment> pieces = pieces_of(own.length(), world_.topology().nodes());
    DASO_ASSERT(residuals.empty() || residuals.size() == pieces.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const at::Tensor piece = rows.narrow(0, own.begin + pieces[i].begin, pieces[i].length());
      const at::Tensor host = on_host(piece);
      const at::Tensor residual = residuals.empty() ? at::Tensor() : residuals[i];
      start(exchange, {.input = host,
                       .output = host,
                       .rule =
                           [&role, residual](const at::Tensor& received, const at::Tensor& mean) {
                             mean_in_order(role.peers.shares, received, mean, residual);
                           },
                       .done = [this, piece, host] { lane_.copy(piece, host); }});
    }
    finish();
  });
  node_.gather(rows, role.slices, world_.limit());
}

std::vector<Segment> cut_in_pieces(std::int64_t rows, std::int64_t length) {
  std::vector<Segment> pieces;
  for (std::int64_t begin = 0; begin < rows; begin += length) {
    pieces.push_back({begin, std::min(begin + length, rows)});
  }
  if (pieces.empty()) pieces.emplace_back();
  return pieces;
}

// Enough pieces that sending them there and back overlaps, but none so small that the way there
// counts more than what travels.
std::int64_t gradient_piece(std::int64_t model_elements, std::int64_t bucket_elements) {
  constexpr std::int64_t kPieces = 40;
  constexpr std::int64_t kLeast = 1 << 14;  // 64 KB
  return std::min(std::max(model_elements / kPieces, kLeast), std::max(bucket_elements, kLeast));
}

std::vector<Segment> pieces_of(std::int64_t rows, int nodes) {
  constexpr std::int64_t kLeastRows = 64;                  // of a node: 16 KB on the int8 wire
  const std::int64_t shares = (rows + nodes - 1) / nodes;  // rows of a node, in all pieces together
  const std::int64_t pieces =
      std::clamp<std::int64_t>(shares / kLeastRows, 1, std::int64_t{kMostPieces});
  return cut_in_pieces(rows, std::max<std::int64_t>(1, (shares + pieces - 1) / pieces * nodes));
}

}  // namespace daso
