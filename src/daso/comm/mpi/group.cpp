// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/mpi/group.h"

#include <fmt/ranges.h>

#include <limits>
#include <numeric>
#include <optional>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "daso/base/error.h"

namespace daso::mpi {
namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// What c10d calls a work: the caller's end of an operation. The progress thread calls end().
class Work final : public c10d::Work {
 public:
  Work(int rank, c10d::OpType type, Tensors results)
      : c10d::Work(rank, type),
        results_(std::move(results)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  Tensors result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  void end(const std::exception_ptr& error) {
    error ? future_->setError(error) : future_->markCompleted(c10::IValue(results_));
    finish(error);
  }

 private:
  Tensors results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// An operation as begin() takes it. The functions hold the tensors that it reads and writes.
struct Call {
  c10d::OpType type;
  const char* name;
  std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
  Tensors results;
  std::function<MPI_Request(MPI_Comm, const Types&)> start;
  std::function<void(const MPI_Status&)> after = {};  // once the data is here; may throw
};

void check_tensor(const at::Tensor& tensor, const char* operation) {
  require(tensor.device().is_cpu() && tensor.layout() == at::kStrided && tensor.is_contiguous(),
          "{} over mpi takes dense, contiguous tensors on the CPU; this one is not (call "
          "contiguous() or cpu() before)",
          operation);
  require(can_carry(tensor.scalar_type()), "{} over mpi cannot carry tensors of type {}", operation,
          c10::toString(tensor.scalar_type()));
  // MPI counts in int, and some of its algorithms also count all ranks' elements together.
  require(tensor.numel() <= std::numeric_limits<int>::max(),
          "{} over mpi takes at most {} elements at once, got {}; cut the tensor into slices",
          operation, std::numeric_limits<int>::max(), tensor.numel());
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

int elements(const at::Tensor& tensor) { return static_cast<int>(tensor.numel()); }

// MPI_Ialltoallv's numbers of one side, in elements.
struct Cut {
  std::vector<int> lengths;
  std::vector<int> offsets;
};

// Cuts a tensor by rows; no splits means equal parts.
Cut cut(const at::Tensor& tensor, const std::vector<std::int64_t>& splits, int parts) {
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
  Cut result;
  int offset = 0;
  for (const std::int64_t length : lengths) {
    require(length >= 0, "all_to_all over mpi: split size {} is negative", length);
    result.lengths.push_back(static_cast<int>(length * row));
    result.offsets.push_back(offset);
    offset += result.lengths.back();
  }
  return result;
}

class Group final : public c10d::Backend {
 public:
  Group(std::shared_ptr<Progress> progress, const GroupPlan& plan, MpiComm communicator)
      : c10d::Backend(plan.rank, static_cast<int>(plan.ranks.size())),
        name_(fmt::format("[{}]", fmt::join(plan.ranks, ", "))),
        limit_(plan.limit),
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
    return begin({.type = c10d::OpType::ALLREDUCE,
                  .name = "all_reduce",
                  .timeout = options.timeout,
                  .results = {tensor},
                  .start =
                      [tensor, how](MPI_Comm comm, const Types& types) {
                        MPI_Request request = MPI_REQUEST_NULL;
                        const auto type = tensor.scalar_type();
                        mpi_check(MPI_Iallreduce(MPI_IN_PLACE, tensor.mutable_data_ptr(),
                                                 elements(tensor), types.type_of(type),
                                                 types.operator_of(type, how), comm, &request));
                        return request;
                      },
                  .after = mean(tensor, options.reduceOp)});
  }

  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override {
    check_pair(output, input, getSize(), "reduce_scatter");
    const Reduction how = reduction_of(options.reduceOp, input);
    return begin({.type = c10d::OpType::_REDUCE_SCATTER_BASE,
                  .name = "reduce_scatter",
                  .timeout = options.timeout,
                  .results = {output},
                  .start =
                      [input, output, how](MPI_Comm comm, const Types& types) {
                        MPI_Request request = MPI_REQUEST_NULL;
                        const auto type = input.scalar_type();
                        mpi_check(MPI_Ireduce_scatter_block(
                            input.const_data_ptr(), output.mutable_data_ptr(), elements(output),
                            types.type_of(type), types.operator_of(type, how), comm, &request));
                        return request;
                      },
                  .after = mean(output, options.reduceOp)});
  }

  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override {
    check_pair(input, output, getSize(), "all_gather");
    // MPI forbids that input and output overlap, unless told that the input is already in its
    // place.
    const auto place = static_cast<const std::byte*>(output.const_data_ptr()) +
                       getRank() * static_cast<std::ptrdiff_t>(input.nbytes());
    const bool in_place = input.const_data_ptr() == place && input.numel() > 0;
    return begin({.type = c10d::OpType::_ALLGATHER_BASE,
                  .name = "all_gather",
                  .timeout = options.timeout,
                  .results = {output},
                  .start = [input, output, in_place](MPI_Comm comm, const Types& types) {
                    MPI_Request request = MPI_REQUEST_NULL;
                    const MPI_Datatype type = types.type_of(input.scalar_type());
                    mpi_check(MPI_Iallgather(in_place ? MPI_IN_PLACE : input.const_data_ptr(),
                                             elements(input), type, output.mutable_data_ptr(),
                                             elements(input), type, comm, &request));
                    return request;
                  }});
  }

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor tensor = only(tensors, "broadcast");
    const int root = peer(options.rootRank, "broadcast");
    return begin({.type = c10d::OpType::BROADCAST,
                  .name = "broadcast",
                  .timeout = options.timeout,
                  .results = {tensor},
                  .start = [tensor, root](MPI_Comm comm, const Types& types) {
                    MPI_Request request = MPI_REQUEST_NULL;
                    mpi_check(MPI_Ibcast(tensor.mutable_data_ptr(), elements(tensor),
                                         types.type_of(tensor.scalar_type()), root, comm,
                                         &request));
                    return request;
                  }});
  }

  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input,
                            std::vector<std::int64_t>& output_splits,
                            std::vector<std::int64_t>& input_splits,
                            const c10d::AllToAllOptions& options) override {
    check_tensor(input, "all_to_all");
    check_tensor(output, "all_to_all");
    require(input.scalar_type() == output.scalar_type(), "all_to_all over mpi: types differ");
    // Shared, since MPI reads the numbers until the operation is complete.
    const auto sent = std::make_shared<const Cut>(cut(input, input_splits, getSize()));
    const auto received = std::make_shared<const Cut>(cut(output, output_splits, getSize()));
    return begin({.type = c10d::OpType::ALLTOALL_BASE,
                  .name = "all_to_all",
                  .timeout = options.timeout,
                  .results = {output},
                  .start = [input, output, sent, received](MPI_Comm comm, const Types& types) {
                    MPI_Request request = MPI_REQUEST_NULL;
                    const MPI_Datatype type = types.type_of(input.scalar_type());
                    mpi_check(MPI_Ialltoallv(input.const_data_ptr(), sent->lengths.data(),
                                             sent->offsets.data(), type, output.mutable_data_ptr(),
                                             received->lengths.data(), received->offsets.data(),
                                             type, comm, &request));
                    return request;
                  }});
  }

  WorkPointer send(Tensors& tensors, int to, int tag) override {
    const at::Tensor tensor = only(tensors, "send");
    peer(to, "send");
    return begin({.type = c10d::OpType::SEND,
                  .name = "send",
                  .results = {tensor},
                  .start = [tensor, to, tag](MPI_Comm comm, const Types& types) {
                    MPI_Request request = MPI_REQUEST_NULL;
                    mpi_check(MPI_Isend(tensor.const_data_ptr(), elements(tensor),
                                        types.type_of(tensor.scalar_type()), to, tag, comm,
                                        &request));
                    return request;
                  }});
  }

  WorkPointer recv(Tensors& tensors, int from, int tag) override {
    const at::Tensor tensor = only(tensors, "receive");
    peer(from, "receive");
    return begin(
        {.type = c10d::OpType::RECV,
         .name = "receive",
         .results = {tensor},
         .start =
             [tensor, from, tag](MPI_Comm comm, const Types& types) {
               MPI_Request request = MPI_REQUEST_NULL;
               mpi_check(MPI_Irecv(tensor.mutable_data_ptr(), elements(tensor),
                                   types.type_of(tensor.scalar_type()), from, tag, comm, &request));
               return request;
             },
         // MPI takes a shorter message than asked for as good.
         .after =
             [tensor, from](const MPI_Status& status) {
               int bytes = 0;
               mpi_check(MPI_Get_count(&status, MPI_BYTE, &bytes));
               require(bytes == MPI_UNDEFINED || static_cast<std::size_t>(bytes) == tensor.nbytes(),
                       "receive over mpi: rank {} of the group sent {} bytes, the tensor "
                       "has {}",
                       from, bytes, tensor.nbytes());
             }});
  }

  WorkPointer barrier(const c10d::BarrierOptions& options) override {
    return begin({.type = c10d::OpType::BARRIER,
                  .name = "barrier",
                  .timeout = options.timeout,
                  .results = {},
                  .start = [](MPI_Comm comm, const Types&) {
                    MPI_Request request = MPI_REQUEST_NULL;
                    mpi_check(MPI_Ibarrier(comm, &request));
                    return request;
                  }});
  }

 private:
  WorkPointer begin(Call call) {
    auto work = c10::make_intrusive<Work>(getRank(), call.type, std::move(call.results));
    progress_->enqueue(
        {.name = fmt::format("{} on group {}", call.name, name_),
         .limit = call.timeout == c10d::kUnsetTimeout ? limit_ : Seconds(call.timeout),
         .start = [start = std::move(call.start), communicator = communicator_](
                      const Types& types) { return start(communicator->get(), types); },
         .finish =
             [work, after = std::move(call.after)](const MPI_Status* status,
                                                   std::exception_ptr error) {
               try {
                 if (!error && after) after(*status);
               } catch (...) {
                 error = std::current_exception();
               }
               work->end(error);
             }});
    return work;
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

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_group(std::shared_ptr<Progress> progress,
                                             const GroupPlan& plan) {
  check_plan(plan, *progress);
  std::optional<MpiComm> communicator;
  progress->call(fmt::format("making group [{}]", fmt::join(plan.ranks, ", ")), plan.limit,
                 [&] { communicator.emplace(make_communicator(plan.ranks)); });
  return c10::make_intrusive<Group>(std::move(progress), plan, std::move(*communicator));
}

}  // namespace daso::mpi
