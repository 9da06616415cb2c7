// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/group.h"

#include <cstring>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "daso/base/error.h"
#include "daso/comm/background_work.h"
#include "daso/comm/tcp/integrity.h"
#include "daso/comm/tcp/reduction.h"

namespace daso::tcp {
namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kRounds = 2;  // of one operation, at most

// Below this many bytes everybody sends all to everybody, instead of a part and then the answer:
// that costs more traffic and half the delay.
constexpr std::size_t kSmall = 16 << 10;

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

Reduce how_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return Reduce::kSum;
    case c10d::ReduceOp::AVG:
      return Reduce::kMean;
    case c10d::ReduceOp::MAX:
      return Reduce::kMax;
    case c10d::ReduceOp::MIN:
      return Reduce::kMin;
    default:
      throw ConfigError("the tcp backend can reduce by sum, mean, maximum and minimum only");
  }
}

std::uint32_t number_of(const std::string& name) {
  return crc32c(0, std::as_bytes(std::span(name)));
}

void copy(std::span<const std::byte> from, std::span<std::byte> into) {
  DASO_ASSERT(from.size() == into.size());
  if (!from.empty()) std::memmove(into.data(), from.data(), from.size());
}

// Parts of equal length, one behind the other.
template <typename Byte>
std::span<Byte> part_of(std::span<Byte> all, int parts, int part) {
  const std::size_t length = all.size() / static_cast<std::size_t>(parts);
  return all.subspan(static_cast<std::size_t>(part) * length, length);
}

std::vector<std::span<const std::byte>> parts_of(const Bytes& room, int ranks) {
  std::vector<std::span<const std::byte>> parts;
  for (int rank = 0; rank < ranks; ++rank) parts.push_back(part_of(std::span(room), ranks, rank));
  return parts;
}

// What is done then, on the adder's thread, may outlive the group: it holds no more than this, the
// tensors and the engine, which waits for it.
class Group final : public c10d::Backend {
 public:
  Group(std::shared_ptr<Engine> engine, const GroupPlan& plan)
      : c10d::Backend(plan.rank, static_cast<int>(plan.ranks.size())),
        engine_(std::move(engine)),
        ranks_(plan.ranks),
        collectives_(number_of(plan.store.prefix())),
        messages_(number_of(plan.store.prefix() + "messages")),
        sent_(plan.ranks.size()),
        received_(plan.ranks.size()) {}

  const std::string getBackendName() const override { return "tcp"; }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor tensor = tensors.at(0);
    const auto work = new_work(c10d::OpType::ALLREDUCE, tensor);
    const Reduce how = how_of(options.reduceOp);
    const Tag tag = next_tag();
    const std::span<std::byte> whole = bytes_of(tensor);
    const bool direct = whole.size() <= kSmall || getSize() == 2;
    direct ? reduce_everywhere(work, tag, tensor, how) : reduce_by_owners(work, tag, tensor, how);
    return work.work;
  }

  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    const auto work = new_work(c10d::OpType::_REDUCE_SCATTER_BASE, output);
    const auto room = std::make_shared<Bytes>(input.nbytes());
    Round round;
    for (const int peer : others()) {
      round.sends.push_back({world_rank(peer), part_of(bytes_of(input), getSize(), peer)});
      round.receives.push_back({world_rank(peer), part_of(std::span(*room), getSize(), peer)});
    }
    round.then = [own = place(), work, room, input, output, how = how_of(options.reduceOp)] {
      copy(part_of(bytes_of(input), own.ranks, own.rank),
           part_of(std::span(*room), own.ranks, own.rank));
      reduce_in_order(parts_of(*room, own.ranks), how, input.scalar_type(), bytes_of(output));
      work.end_part(nullptr);
    };
    round.done = work.end_part;
    begin(*engine_, next_tag(), std::move(round));
    return work.work;
  }

  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& /*options*/) override {
    const auto work = new_work(c10d::OpType::_ALLGATHER_BASE, output);
    copy(bytes_of(input), part_of(bytes_of(output), getSize(), getRank()));
    Round round;
    for (const int peer : others()) {
      round.sends.push_back({world_rank(peer), bytes_of(input)});
      round.receives.push_back({world_rank(peer), part_of(bytes_of(output), getSize(), peer)});
    }
    round.done = [work, input](const std::exception_ptr& error) { work.end_part(error); };
    begin(*engine_, next_tag(), std::move(round));
    return work.work;
  }

  // Along a tree: who has it passes it on.
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor tensor = tensors.at(0);
    const auto work = new_work(c10d::OpType::BROADCAST, tensor);
    const Tag tag = next_tag();
    const int root = static_cast<int>(options.rootRank);
    const int spot = (getRank() - root + getSize()) % getSize();  // in the tree, whose root has 0
    const auto rank_at = [&](int other) { return world_rank((other + root) % getSize()); };
    Round passing;
    int bit = 1;
    while (bit <= spot) bit <<= 1;
    const int parent = spot - (bit >> 1);
    for (; spot + bit < getSize(); bit <<= 1) {
      passing.sends.push_back({rank_at(spot + bit), bytes_of(tensor)});
    }
    passing.done = work.end_part;
    if (spot == 0) {
      begin(*engine_, tag, std::move(passing));
      return work.work;
    }
    Round receiving;
    receiving.receives.push_back({rank_at(parent), bytes_of(tensor)});
    receiving.done = work.end_part;
    receiving.then = [&engine = *engine_, tag, passing = std::move(passing)] {
      begin(engine, tag, passing);
    };
    begin(*engine_, tag, std::move(receiving));
    return work.work;
  }

  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& /*options*/) override {
    const auto work = new_work(c10d::OpType::ALLTOALL_BASE, output);
    const std::vector<std::span<std::byte>> sent = cut(input, input_splits);
    const std::vector<std::span<std::byte>> received = cut(output, output_splits);
    const auto own = static_cast<std::size_t>(getRank());
    copy(sent.at(own), received.at(own));
    Round round;
    for (const int peer : others()) {
      const auto number = static_cast<std::size_t>(peer);
      round.sends.push_back({world_rank(peer), sent.at(number)});
      round.receives.push_back({world_rank(peer), received.at(number)});
    }
    // Who sends the parts of something to their owners gets answers that are made of them, and has
    // no use for that memory before (owner_reduce.h).
    round.stays = std::make_shared<const at::Tensor>(input);
    round.done = [work, input](const std::exception_ptr& error) { work.end_part(error); };
    begin(*engine_, next_tag(), std::move(round));
    return work.work;
  }

  WorkPointer send(Tensors& tensors, int to, int /*tag*/) override {
    const auto work = new_work(c10d::OpType::SEND, tensors.at(0));
    const Tag tag{.group = messages_, .number = sent_.at(static_cast<std::size_t>(to))++};
    Round round;
    round.sends.push_back({world_rank(to), bytes_of(tensors.at(0))});
    round.done = work.end_part;
    begin(*engine_, tag, std::move(round));
    return work.work;
  }

  WorkPointer recv(Tensors& tensors, int from, int /*tag*/) override {
    const auto work = new_work(c10d::OpType::RECV, tensors.at(0));
    const Tag tag{.group = messages_, .number = received_.at(static_cast<std::size_t>(from))++};
    Round round;
    round.receives.push_back({world_rank(from), bytes_of(tensors.at(0))});
    round.done = work.end_part;
    begin(*engine_, tag, std::move(round));
    return work.work;
  }

  WorkPointer barrier(const c10d::BarrierOptions& /*options*/) override {
    const auto work = new_work(c10d::OpType::BARRIER, at::Tensor());
    Round round;
    for (const int peer : others()) {
      round.sends.push_back({world_rank(peer), {}});
      round.receives.push_back({world_rank(peer), {}});
    }
    round.done = work.end_part;
    begin(*engine_, next_tag(), std::move(round));
    return work.work;
  }

 private:
  struct Place {
    int rank;
    int ranks;
  };
  Place place() const { return {.rank = getRank(), .ranks = getSize()}; }

  // The work holds its tensor, and every letter of it the work.
  BackgroundWork new_work(c10d::OpType type, const at::Tensor& result) {
    Tensors results;
    if (result.defined()) results.push_back(result);
    return begin_work(getRank(), type, std::move(results), /*parts=*/1);
  }

  // Everybody has everything, and computes the same.
  void reduce_everywhere(const BackgroundWork& work, const Tag& tag, const at::Tensor& tensor,
                         Reduce how) {
    const std::span<std::byte> whole = bytes_of(tensor);
    const auto room = std::make_shared<Bytes>(whole.size() * ranks_.size());
    Round round;
    for (const int peer : others()) {
      round.sends.push_back({world_rank(peer), whole});
      round.receives.push_back({world_rank(peer), part_of(std::span(*room), getSize(), peer)});
    }
    round.then = [own = place(), work, room, tensor, how] {
      copy(bytes_of(tensor), part_of(std::span(*room), own.ranks, own.rank));
      reduce_in_order(parts_of(*room, own.ranks), how, tensor.scalar_type(), bytes_of(tensor));
      work.end_part(nullptr);
    };
    round.done = work.end_part;
    begin(*engine_, tag, std::move(round));
  }

  // Everybody adds up one segment, and gives it to the others.
  void reduce_by_owners(const BackgroundWork& work, const Tag& tag, const at::Tensor& tensor,
                        Reduce how) {
    const std::span<std::byte> own = segment(tensor, getRank());
    const auto room = std::make_shared<Bytes>(own.size() * ranks_.size());
    Round adding;
    Round giving;
    for (const int peer : others()) {
      adding.sends.push_back({world_rank(peer), segment(tensor, peer)});
      adding.receives.push_back({world_rank(peer), part_of(std::span(*room), getSize(), peer)});
      giving.sends.push_back({world_rank(peer), own});
      giving.receives.push_back({world_rank(peer), segment(tensor, peer)});
    }
    giving.done = adding.done = work.end_part;
    adding.then = [&engine = *engine_, us = place(), room, own, tensor, how, tag,
                   giving = std::move(giving)] {
      copy(own, part_of(std::span(*room), us.ranks, us.rank));
      reduce_in_order(parts_of(*room, us.ranks), how, tensor.scalar_type(), own);
      begin(engine, {.group = tag.group, .number = tag.number + 1}, giving);
    };
    begin(*engine_, tag, std::move(adding));
  }

  std::span<std::byte> segment(const at::Tensor& tensor, int rank) const {
    const Segment own = segment_of(tensor.numel(), getSize(), rank);
    const auto element = static_cast<std::int64_t>(tensor.element_size());
    return bytes_of(tensor).subspan(static_cast<std::size_t>(own.begin * element),
                                    static_cast<std::size_t>(own.length() * element));
  }

  // By rows, as many for each rank as the splits say.
  std::vector<std::span<std::byte>> cut(const at::Tensor& tensor,
                                        const std::vector<std::int64_t>& splits) const {
    DASO_ASSERT(splits.size() == ranks_.size());
    const std::size_t rows = tensor.dim() == 0 ? 1 : static_cast<std::size_t>(tensor.size(0));
    const std::size_t row = rows == 0 ? 0 : tensor.nbytes() / rows;
    std::vector<std::span<std::byte>> parts;
    std::size_t begin = 0;
    for (const std::int64_t split : splits) {
      const std::size_t length = static_cast<std::size_t>(split) * row;
      parts.push_back(bytes_of(tensor).subspan(begin, length));
      begin += length;
    }
    return parts;
  }

  // The ranks of the group but this one, beginning behind it, so that not all call the same first.
  std::vector<int> others() const {
    std::vector<int> all;
    for (int i = 1; i < getSize(); ++i) all.push_back((getRank() + i) % getSize());
    return all;
  }

  int world_rank(int rank) const { return ranks_.at(static_cast<std::size_t>(rank)); }

  Tag next_tag() { return {.group = collectives_, .number = kRounds * begun_++}; }

  const std::shared_ptr<Engine> engine_;
  const std::vector<int> ranks_;  // in the world
  const std::uint32_t collectives_;
  const std::uint32_t messages_;
  std::uint32_t begun_ = 0;
  std::vector<std::uint32_t> sent_;      // messages to each rank of the group
  std::vector<std::uint32_t> received_;  // and from it
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_group(std::shared_ptr<Engine> engine,
                                             const GroupPlan& plan) {
  return c10::make_intrusive<Group>(std::move(engine), plan);
}

}  // namespace daso::tcp
