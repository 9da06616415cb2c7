// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/mpi/group.h"

#include <fmt/ranges.h>

#include <limits>
#include <numeric>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/comm/background_work.h"
#include "daso/comm/communicator.h"
#include "daso/comm/mpi/parts.h"

namespace daso::mpi {
namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// An operation as begin() takes it. It has several parts where MPI cannot count its elements in
// one; all ranks start them in the same order.
struct Call {
  c10d::OpType type;
  const char* name;
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
  Tensors results;
  std::vector<Part> parts = {};
};

void check_tensor(const at::Tensor& tensor, const char* operation) {
  require(tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous(),
          "{} over mpi takes dense, contiguous tensors on the CPU; this one is not (call "
          "contiguous() or cpu() before)",
          operation);
  require(can_carry(tensor.scalar_type()), "{} over mpi cannot carry tensors of type {}", operation,
          c10::toString(tensor.scalar_type()));
}

at::Tensor only(const Tensors& tensors, const char* operation) {
  require(tensors.size() == 1, "{} over mpi takes one tensor, got {}", operation, tensors.size());
  check_tensor(tensors.front(), operation);
  return tensors.front();
}

void check_pair(const at::Tensor& part, const at::Tensor& whole, int parts, const char* operation) {
  check_tensor(part, operation);
  check_tensor(whole, operation);
  require(part.scalar_type() == whole.scalar_type(), "{} over mpi from {} to {}: types differ",
          operation, c10::toString(part.scalar_type()), c10::toString(whole.scalar_type()));
  require(
      part.numel() * parts == whole.numel(),
      "{} over mpi of {} ranks: one tensor has {} elements, the other {}, which is not {} times "
      "as many",
      operation, parts, part.numel(), whole.numel(), parts);
}

Reduction reduction_of(const c10d::ReduceOp& op, const at::Tensor& tensor) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return Reduction::kSum;
    case c10d::ReduceOp::AVG:
      require(tensor.is_floating_point(), "the mean over mpi is for floating-point types, not {}",
              c10::toString(tensor.scalar_type()));
      return Reduction::kSum;
    case c10d::ReduceOp::MAX:
      return Reduction::kMax;
    case c10d::ReduceOp::MIN:
      return Reduction::kMin;
    default:
      throw ConfigError("the mpi backend can reduce by sum, mean, maximum and minimum only");
  }
}

// Cuts a tensor by rows, counted in elements; no splits means equal parts.
std::vector<Segment> cut(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                         int parts) {
  require(tensor.dim() > 0,
          "all_to_all over mpi cuts along the first dimension, this tensor has none");
  const std::int64_t rows = tensor.size(0);
  const std::int64_t row = c10::multiply_integers(tensor.sizes().slice(1));
  require(!splits.empty() || rows % parts == 0,
          "all_to_all over mpi: {} rows cannot be cut into {} equal parts; give split sizes", rows,
          parts);
  const std::vector<std::int64_t> equal(static_cast<std::size_t>(parts), rows / parts);
  const auto& lengths = splits.empty() ? equal : splits;
  require(
      std::ssize(lengths) == parts && std::accumulate(lengths.begin(), lengths.end(), 0LL) == rows,
      "all_to_all over mpi of {} ranks: the split sizes [{}] do not cut {} rows", parts,
      fmt::join(lengths, ", "), rows);
  std::vector<Segment> segments;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    require(length >= 0, "all_to_all over mpi: split size {} is negative", length);
    segments.push_back({begin, begin + length * row});
    begin = segments.back().end;
  }
  return segments;
}

at::Tensor elements_of(const at::Tensor& tensor, const Segment& segment) {
  return tensor.view({-1}).narrow(0, segment.begin, segment.length());
}

// Of messages that are parts of an all_to_all; the caller's own have 0.
constexpr int kAllToAllTag = 1;

class Group final : public c10d::Backend {
 public:
  Group(std::shared_ptr<Progress> progress, const GroupPlan& plan, MpiComm communicator,
        std::int64_t most)
      : c10d::Backend(plan.rank, static_cast<int>(plan.ranks.size())),
        name_(fmt::format("[{}]", fmt::join(plan.ranks, ", "))),
        limit_(plan.limit),
        most_elements_(most),
        progress_(std::move(progress)),
        communicator_(new MpiComm(std::move(communicator)),
                      [thread = progress_.get()](MpiComm* owned) {
                        thread->retire(std::move(*owned));
                        delete owned;
                      }) {}

  const std::string getBackendName() const override { return "mpi"; }

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor tensor = only(tensors, "all_reduce");
    const Reduction how = reduction_of(options.reduceOp, tensor);
    Call call{.type = c10d::OpType::ALLREDUCE,
              .name = "all_reduce",
              .timeout = options.timeout,
              .results = {tensor}};
    for (const at::Tensor& piece : pieces_of(tensor)) {
      call.parts.push_back(all_reduce_part(piece, how));
      call.parts.back().after = mean(piece, options.reduceOp);
    }
    return begin(std::move(call));
  }

  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    check_pair(output, input, getSize(), "reduce_scatter");
    const Reduction how = reduction_of(options.reduceOp, input);
    Call call{.type = c10d::OpType::_REDUCE_SCATTER_BASE,
              .name = "reduce_scatter",
              .timeout = options.timeout,
              .results = {output}};
    if (input.numel() <= most_elements_) {
      call.parts.push_back(reduce_scatter_part(input, output, how));
      call.parts.back().after = mean(output, options.reduceOp);
      return begin(std::move(call));
    }
    const Tensors into = pieces_of(output);
    for (int root = 0; root < getSize(); ++root) {
      const bool ours = root == getRank();
      const Tensors from = pieces_of(elements_of(input, equal_segment(output, root)));
      for (std::size_t i = 0; i < from.size(); ++i) {
        call.parts.push_back(reduce_part(from[i], ours ? into[i] : at::Tensor(), root, how));
        if (ours) call.parts.back().after = mean(into[i], options.reduceOp);
      }
    }
    return begin(std::move(call));
  }

  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override {
    check_pair(input, output, getSize(), "all_gather");
    // MPI forbids that input and output overlap, unless told that the input is already in its
    // place.
    const auto place = static_cast<const std::byte*>(output.const_data_ptr()) +
                       getRank() * static_cast<std::ptrdiff_t>(input.nbytes());
    const bool in_place = input.const_data_ptr() == place && input.numel() > 0;
    Call call{.type = c10d::OpType::_ALLGATHER_BASE,
              .name = "all_gather",
              .timeout = options.timeout,
              .results = {output}};
    if (output.numel() <= most_elements_) {
      call.parts.push_back(all_gather_part(input, output, in_place));
      return begin(std::move(call));
    }
    if (!in_place) elements_of(output, equal_segment(input, getRank())).copy_(input.view({-1}));
    for (int root = 0; root < getSize(); ++root) {
      for (const at::Tensor& piece : pieces_of(elements_of(output, equal_segment(input, root)))) {
        call.parts.push_back(broadcast_part(piece, root));
      }
    }
    return begin(std::move(call));
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor tensor = only(tensors, "broadcast");
    const int root = peer(options.rootRank, "broadcast");
    Call call{.type = c10d::OpType::BROADCAST,
              .name = "broadcast",
              .timeout = options.timeout,
              .results = {tensor}};
    for (const at::Tensor& piece : pieces_of(tensor)) {
      call.parts.push_back(broadcast_part(piece, root));
    }
    return begin(std::move(call));
  }

  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override {
    check_tensor(input, "all_to_all");
    check_tensor(output, "all_to_all");
    require(input.scalar_type() == output.scalar_type(), "all_to_all over mpi: types differ");
    const std::vector<Segment> sent = cut(input, input_splits, getSize());
    const std::vector<Segment> received = cut(output, output_splits, getSize());
    Call call{.type = c10d::OpType::ALLTOALL_BASE,
              .name = "all_to_all",
              .timeout = options.timeout,
              .results = {output}};
    // All ranks must decide alike. Communicator cuts inputs of one size into segments as equal as
    // can be, so no output has more than a row for each rank in addition.
    const std::int64_t row = c10::multiply_integers(input.sizes().slice(1));
    if (input.numel() + getSize() * row <= most_elements_) {
      DASO_ASSERT(output.numel() <= most_elements_);
      call.parts.push_back(all_to_all_part(input, sent, output, received));
      return begin(std::move(call));
    }
    for (int other = 0; other < getSize(); ++other) {
      const auto number = static_cast<std::size_t>(other);
      for (const at::Tensor& piece : pieces_of(elements_of(output, received[number]))) {
        call.parts.push_back(receive_part(piece, other, kAllToAllTag));
      }
      for (const at::Tensor& piece : pieces_of(elements_of(input, sent[number]))) {
        call.parts.push_back(send_part(piece, other, kAllToAllTag));
      }
    }
    return begin(std::move(call));
  }

  WorkPointer send(Tensors& tensors, int to, int tag) override {
    const at::Tensor tensor = only(tensors, "send");
    peer(to, "send");
    Call call{.type = c10d::OpType::SEND, .name = "send", .results = {tensor}};
    for (const at::Tensor& piece : pieces_of(tensor)) {
      call.parts.push_back(send_part(piece, to, tag));
    }
    return begin(std::move(call));
  }

  WorkPointer recv(Tensors& tensors, int from, int tag) override {
    const at::Tensor tensor = only(tensors, "receive");
    peer(from, "receive");
    Call call{.type = c10d::OpType::RECV, .name = "receive", .results = {tensor}};
    for (const at::Tensor& piece : pieces_of(tensor)) {
      call.parts.push_back(receive_part(piece, from, tag));
    }
    return begin(std::move(call));
  }

  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    return begin({.type = c10d::OpType::BARRIER,
                  .name = "barrier",
                  .timeout = options.timeout,
                  .results = {},
                  .parts = {barrier_part()}});
  }

 private:
  WorkPointer begin(Call call) {
    const BackgroundWork begun =
        begin_work(getRank(), call.type, std::move(call.results), call.parts.size());
    for (Part& part : call.parts) {
      progress_->enqueue(
          {.name = fmt::format("{} on group {}", call.name, name_),
           .limit = call.timeout == c10d::kUnsetTimeout ? limit_ : Seconds(call.timeout),
           .start = [start = std::move(part.start), communicator = communicator_](
                        const Types& types) { return start(communicator->get(), types); },
           .finish =
               [end = begun.end_part, after = std::move(part.after)](const MPI_Status* status,
                                                                     std::exception_ptr error) {
                 try {
                   if (!error && after) after(*status);
                 } catch (...) {
                   error = std::current_exception();
                 }
                 end(error);
               }});
    }
    return begun.work;
  }

  // The tensor in pieces that MPI can count, as few and as equal as can be. One that it can count
  // stays whole: how sums are rounded depends on where an element lies.
  Tensors pieces_of(const at::Tensor& tensor) const {
    if (tensor.numel() <= most_elements_) return {tensor};
    const std::int64_t pieces = tensor.numel() / most_elements_ + 1;
    return tensor.view({-1}).split(tensor.numel() / pieces + 1);
  }

  // Where a rank's part lies among those of all ranks.
  static Segment equal_segment(const at::Tensor& part, int rank) {
    return {rank * part.numel(), (rank + 1) * part.numel()};
  }

  // The second half of a mean: MPI has made the sum.
  std::function<void(const MPI_Status&)> mean(const at::Tensor& tensor,
                                              const c10d::ReduceOp& op) const {
    if (op.op_ != c10d::ReduceOp::AVG) return {};
    return [tensor, ranks = getSize()](const MPI_Status&) {
      divide(tensor.mutable_data_ptr(), tensor.numel(), tensor.scalar_type(), ranks);
    };
  }

  int peer(std::int64_t rank, const char* operation) const {
    require(rank >= 0 && rank < getSize(), "{} over mpi: there is no rank {} in a group of {}",
            operation, rank, getSize());
    return static_cast<int>(rank);
  }

  const std::string name_;
  const Seconds limit_;
  const std::int64_t most_elements_;  // of all ranks together, in one call of MPI
  const std::shared_ptr<Progress> progress_;
  // Shared with the operations in flight; the last one to let go gives it to the progress thread.
  const std::shared_ptr<const MpiComm> communicator_;
};

void check_plan(const GroupPlan& plan, const Progress& progress) {
  const std::string ranks = fmt::format("[{}]", fmt::join(plan.ranks, ", "));
  require(!plan.ranks.empty() && plan.ranks.front() >= 0 && plan.ranks.back() < progress.size() &&
              std::adjacent_find(plan.ranks.begin(), plan.ranks.end(), std::greater_equal<>()) ==
                  plan.ranks.end(),
          "cannot make the group {} over mpi: mpirun started {} ranks, so a group is an ascending "
          "list of 0 to {}",
          ranks, progress.size(), progress.size() - 1);
  const bool ours = plan.rank >= 0 && plan.rank < std::ssize(plan.ranks) &&
                    plan.ranks[static_cast<std::size_t>(plan.rank)] == progress.rank();
  require(ours,
          "cannot make the group {} over mpi: this process says it is number {} of it, but MPI "
          "counts it as rank {}; do not set rank variables under mpirun",
          ranks, plan.rank, progress.rank());
}

// MPI counts in int, and some of its algorithms also count all ranks' elements together. A test
// sets the variable, the same on all ranks, to have small tensors travel as large ones do.
std::int64_t most_elements() {
  constexpr const char* kVariable = "DASO_MPI_MOST_ELEMENTS";
  const int most =
      find_integer(this_environment(), kVariable).value_or(std::numeric_limits<int>::max());
  require(most >= 1, "{} must be above 0, got {}", kVariable, most);
  return most;
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_group(std::shared_ptr<Progress> progress,
                                             const GroupPlan& plan) {
  check_plan(plan, *progress);
  const std::int64_t most = most_elements();
  std::optional<MpiComm> communicator;
  progress->call(fmt::format("making group [{}]", fmt::join(plan.ranks, ", ")), plan.limit,
                 [&] { communicator.emplace(make_communicator(plan.ranks)); });
  return c10::make_intrusive<Group>(std::move(progress), plan, std::move(*communicator), most);
}

}  // namespace daso::mpi
