// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/communicator.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <array>
#include <numeric>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/group.h"
#include "daso/comm/link/polling.h"
#include "daso/comm/operation.h"
#include "daso/tensor/lane.h"

namespace daso {
namespace {

struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr std::array<TypeName, 7> kTypes = {{{at::kDouble, "float64"},
                                             {at::kFloat, "float32"},
                                             {at::kBFloat16, "bfloat16"},
                                             {at::kHalf, "float16"},
                                             {at::kChar, "int8"},
                                             {at::kInt, "int32"},
                                             {at::kLong, "int64"}}};

const char* name_of(at::ScalarType type) {
  for (const TypeName& known : kTypes) {
    if (known.type == type) return known.name;
  }
  return nullptr;
}

const char* name_of(Reduce how) {
  switch (how) {
    case Reduce::kSum:
      return "sum";
    case Reduce::kMean:
      return "mean";
    case Reduce::kMax:
      return "max";
    case Reduce::kMin:
      return "min";
  }
  return "?";
}

c10d::ReduceOp op_of(Reduce how) {
  switch (how) {
    case Reduce::kSum:
      return c10d::ReduceOp::SUM;
    case Reduce::kMean:
      return c10d::ReduceOp::AVG;
    case Reduce::kMax:
      return c10d::ReduceOp::MAX;
    case Reduce::kMin:
      return c10d::ReduceOp::MIN;
  }
  return c10d::ReduceOp::UNUSED;
}

// float32[3, 4]
std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("{}[{}]", name_of(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
}

void check_tensor(const char* operation, const at::Tensor& tensor) {
  require(tensor.defined(), "{}: the tensor is undefined", operation);
  require(name_of(tensor.scalar_type()) != nullptr,
          "{}: tensors of type {} do not travel; use one of float64, float32, bfloat16, float16, "
          "int8, int32, int64",
          operation, c10::toString(tensor.scalar_type()));
  check_memory(operation, tensor);
}

void check_reduce(const char* operation, const at::Tensor& tensor, Reduce how) {
  require(how != Reduce::kMean || at::isFloatingType(tensor.scalar_type()),
          "{}: the mean of {} is not defined; use sum", operation, name_of(tensor.scalar_type()));
}

std::int64_t rows_of(const at::Tensor& tensor) { return tensor.dim() == 0 ? 1 : tensor.size(0); }

// The shape of a tensor with another number of rows.
std::vector<std::int64_t> with_rows(const at::Tensor& tensor, std::int64_t rows) {
  if (tensor.dim() == 0) return {rows};
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes[0] = rows;
  return sizes;
}

void check_output(const char* operation, const at::Tensor& like, const at::Tensor& tensor,
                  std::int64_t rows) {
  check_tensor(operation, tensor);
  require(tensor.scalar_type() == like.scalar_type() && tensor.sizes() == with_rows(like, rows),
          "{}: {} was passed where {}[{}] belongs", operation, shape_of(tensor),
          name_of(like.scalar_type()), fmt::join(with_rows(like, rows), ", "));
}

// An operation on the host whose result belongs on a device.
struct StagedOperation final : Operation {
  StagedOperation(Pending on_host, at::Tensor on_device, bool brings_news)
      : host(std::move(on_host)), device(std::move(on_device)), changed(brings_news) {}

  bool done() override { return host.done(); }
  at::Tensor wait(Seconds limit) override {
    const at::Tensor result = std::move(host).wait(limit);
    if (changed) device.copy_(result, /*non_blocking=*/true);  // LibTorch keeps it until then
    return std::move(device);
  }

  Pending host;
  at::Tensor device;
  const bool changed;
};

Pending staged(Pending host, at::Tensor device, bool changed = true) {
  return Pending(std::make_unique<StagedOperation>(std::move(host), std::move(device), changed));
}

// In a group of one nothing travels.
bool travels_from_device(const Group& group, const at::Tensor& tensor,
                         const at::Tensor& other = {}) {
  const auto on_device = [](const at::Tensor& any) {
    return any.defined() && !any.device().is_cpu();
  };
  return group.size() > 1 && (on_device(tensor) || on_device(other));
}

// Room on the host for what is to come.
at::Tensor room_for(const char* operation, const at::Tensor& tensor) {
  check_tensor(operation, tensor);
  if (tensor.device().is_cpu()) return tensor;
  return pinned_room(tensor);
}

at::Tensor to_host(const char* operation, const at::Tensor& tensor, const Group& group) {
  const at::Tensor host = room_for(operation, tensor);
  if (tensor.device().is_cpu()) return tensor;
  host.copy_(tensor, /*non_blocking=*/true);
  const std::shared_ptr<LaneMark> copied = mark_of_caller(tensor.device());
  poll({.guard = group.guard(),
        .call = {.what = fmt::format("copying to the host for {}", operation),
                 .group = group.name(),
                 .number = group.begun()},
        .limit = group.limit()},
       [&] { return copied->reached(); });
  return host;
}

}  // namespace

void check_memory(const std::string& operation, const at::Tensor& tensor) {
  require(tensor.device().is_cpu() || tensor.device().is_cuda(),
          "{}: the tensor is on {}; it must be on the CPU or a GPU", operation,
          tensor.device().str());
  require(tensor.layout() == at::kStrided && tensor.is_contiguous(),
          "{}: the tensor of shape [{}] and strides [{}] is not contiguous; pass .contiguous()",
          operation, fmt::join(tensor.sizes(), ", "), fmt::join(tensor.strides(), ", "));
}

Segment segment_of(std::int64_t rows, int ranks, int rank) {
  const std::int64_t piece = (rows + ranks - 1) / ranks;
  return {std::min(rank * piece, rows), std::min((rank + 1) * piece, rows)};
}

Communicator::Communicator(std::unique_ptr<Group> group) : group_(std::move(group)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const { return group_->rank(); }
int Communicator::size() const { return group_->size(); }
const std::string& Communicator::name() const { return group_->name(); }
const std::vector<int>& Communicator::world_ranks() const { return group_->ranks(); }

Pending Communicator::all_reduce(at::Tensor tensor, Reduce how) {
  if (travels_from_device(*group_, tensor)) {
    return staged(all_reduce(to_host("all_reduce", tensor, *group_), how), tensor);
  }
  check_tensor("all_reduce", tensor);
  check_reduce("all_reduce", tensor, how);
  const auto what = [&] {
    return fmt::format("all_reduce({}, {})", name_of(how), shape_of(tensor));
  };
  return group_->start(what, tensor, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op_of(how);
    return backend.allreduce(tensors, options);
  });
}

Pending Communicator::reduce_scatter(at::Tensor input, at::Tensor output, Reduce how) {
  if (travels_from_device(*group_, input, output)) {
    return staged(reduce_scatter(to_host("reduce_scatter", input, *group_),
                                 room_for("reduce_scatter", output), how),
                  output);
  }
  check_tensor("reduce_scatter", input);
  check_reduce("reduce_scatter", input, how);
  const std::int64_t rows = rows_of(input);
  const std::int64_t own = segment_of(rows, size(), rank()).length();
  check_output("reduce_scatter", input, output, own);
  if (size() == 1) return group_->done(output.copy_(input));
  const std::int64_t piece = segment_of(rows, size(), 0).length();
  const bool even = piece * size() == rows;
  // The backends cut evenly: what does not fit is padded.
  at::Tensor whole = input;
  at::Tensor part = output;
  if (!even) {
    whole = at::zeros(with_rows(input, piece * size()), input.options());
    whole.narrow(0, 0, rows).copy_(input);
    part = at::empty(with_rows(input, piece), input.options());
  }
  const auto what = [&] {
    return fmt::format("reduce_scatter({}, {})", name_of(how), shape_of(input));
  };
  const auto call = [&](c10d::Backend& backend) {
    c10d::ReduceScatterOptions options;
    options.reduceOp = op_of(how);
    return backend._reduce_scatter_base(part, whole, options);
  };
  if (even) return group_->start(what, output, call);
  return group_->start(what, output, call,
                       [output, part, own] { output.copy_(part.narrow(0, 0, own)); });
}

Pending Communicator::all_gather(at::Tensor input, at::Tensor output,
                                 std::optional<Seconds> limit) {
  if (travels_from_device(*group_, input, output)) {
    return staged(
        all_gather(to_host("all_gather", input, *group_), room_for("all_gather", output), limit),
        output);
  }
  check_tensor("all_gather", output);
  const std::int64_t rows = rows_of(output);
  check_output("all_gather", output, input, segment_of(rows, size(), rank()).length());
  if (size() == 1) return group_->done(output.copy_(input));
  const std::int64_t piece = segment_of(rows, size(), 0).length();
  const bool even = piece * size() == rows;
  at::Tensor part = input;
  at::Tensor whole = output;
  if (!even) {
    part = at::zeros(with_rows(output, piece), output.options());
    part.narrow(0, 0, rows_of(input)).copy_(input);
    whole = at::empty(with_rows(output, piece * size()), output.options());
  }
  const auto what = [&] { return fmt::format("all_gather({})", shape_of(output)); };
  const auto call = [&](c10d::Backend& backend) {
    c10d::AllgatherOptions options;
    if (limit) options.timeout = whole_milliseconds(*limit);
    return backend._allgather_base(whole, part, options);
  };
  if (even) return group_->start(what, output, call);
  return group_->start(what, output, call,
                       [output, whole, rows] { output.copy_(whole.narrow(0, 0, rows)); });
}

Pending Communicator::broadcast(at::Tensor tensor, int root) {
  if (travels_from_device(*group_, tensor)) {
    const at::Tensor host =
        root == rank() ? to_host("broadcast", tensor, *group_) : room_for("broadcast", tensor);
    return staged(broadcast(host, root), tensor, /*changed=*/root != rank());
  }
  check_tensor("broadcast", tensor);
  require(root >= 0 && root < size(), "broadcast: root {} is not in 0 ... {}", root, size() - 1);
  const auto what = [&] { return fmt::format("broadcast(from {}, {})", root, shape_of(tensor)); };
  return group_->start(what, tensor, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return backend.broadcast(tensors, options);
  });
}

Pending Communicator::all_to_all(at::Tensor input, at::Tensor output) {
  if (travels_from_device(*group_, input, output)) {
    return staged(all_to_all(to_host("all_to_all", input, *group_), room_for("all_to_all", output)),
                  output);
  }
  check_tensor("all_to_all", input);
  const std::int64_t rows = rows_of(input);
  const std::int64_t own = segment_of(rows, size(), rank()).length();
  check_output("all_to_all", input, output, own * size());
  if (size() == 1) return group_->done(output.copy_(input));
  const auto what = [&] { return fmt::format("all_to_all({})", shape_of(input)); };
  return group_->start(what, output, [&](c10d::Backend& backend) {
    std::vector<std::int64_t> to;
    for (int peer = 0; peer < size(); ++peer) to.push_back(segment_of(rows, size(), peer).length());
    std::vector<std::int64_t> from(static_cast<std::size_t>(size()), own);
    return backend.alltoall_base(output, input, from, to, c10d::AllToAllOptions());
  });
}

Pending Communicator::send(at::Tensor tensor, int to) {
  if (travels_from_device(*group_, tensor)) {
    return staged(send(to_host("send", tensor, *group_), to), tensor, /*changed=*/false);
  }
  check_tensor("send", tensor);
  require(to >= 0 && to < size() && to != rank(), "send: rank {} cannot send to rank {} of {}",
          rank(), to, size());
  return group_->pass({.from = rank(), .to = to, .shape = shape_of(tensor)}, tensor);
}

Pending Communicator::receive(at::Tensor tensor, int from) {
  if (travels_from_device(*group_, tensor)) {
    return staged(receive(room_for("receive", tensor), from), tensor);
  }
  check_tensor("receive", tensor);
  require(from >= 0 && from < size() && from != rank(),
          "receive: rank {} cannot receive from rank {} of {}", rank(), from, size());
  return group_->pass({.from = from, .to = rank(), .shape = shape_of(tensor)}, tensor);
}

Pending Communicator::barrier() {
  return group_->start(
      [] { return std::string("barrier"); }, at::Tensor(),
      [&](c10d::Backend& backend) { return backend.barrier(c10d::BarrierOptions()); });
}

}  // namespace daso
