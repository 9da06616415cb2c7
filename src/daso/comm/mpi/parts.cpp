// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/mpi/parts.h"

#include <memory>

#include "daso/base/error.h"

namespace daso::mpi {
namespace {

int elements(const at::Tensor& tensor) { return static_cast<int>(tensor.numel()); }

// MPI_Ialltoallv's numbers of one side.
struct Counts {
  explicit Counts(const std::vector<Segment>& segments) {
    for (const Segment& segment : segments) {
      lengths.push_back(static_cast<int>(segment.length()));
      offsets.push_back(static_cast<int>(segment.begin));
    }
  }
  std::vector<int> lengths;
  std::vector<int> offsets;
};

}  // namespace

Part all_reduce_part(const at::Tensor& tensor, Reduction how) {
  return {.start = [tensor, how](MPI_Comm comm, const Types& types) {
    MPI_Request request = MPI_REQUEST_NULL;
    const auto type = tensor.scalar_type();
    mpi_check(MPI_Iallreduce(MPI_IN_PLACE, tensor.mutable_data_ptr(), elements(tensor),
                             types.type_of(type), types.operator_of(type, how), comm, &request));
    return request;
  }};
}

Part reduce_part(const at::Tensor& from, const at::Tensor& into, int root, Reduction how) {
  return {.start = [from, into, root, how](MPI_Comm comm, const Types& types) {
    MPI_Request request = MPI_REQUEST_NULL;
    const auto type = from.scalar_type();
    mpi_check(MPI_Ireduce(from.const_data_ptr(), into.defined() ? into.mutable_data_ptr() : nullptr,
                          elements(from), types.type_of(type), types.operator_of(type, how), root,
                          comm, &request));
    return request;
  }};
}

Part reduce_scatter_part(const at::Tensor& input, const at::Tensor& output, Reduction how) {
  return {.start = [input, output, how](MPI_Comm comm, const Types& types) {
    MPI_Request request = MPI_REQUEST_NULL;
    const auto type = input.scalar_type();
    mpi_check(MPI_Ireduce_scatter_block(input.const_data_ptr(), output.mutable_data_ptr(),
                                        elements(output), types.type_of(type),
                                        types.operator_of(type, how), comm, &request));
    return request;
  }};
}

Part all_gather_part(const at::Tensor& input, const at::Tensor& output, bool in_place) {
  return {.start = [input, output, in_place](MPI_Comm comm, const Types& types) {
    MPI_Request request = MPI_REQUEST_NULL;
    const MPI_Datatype type = types.type_of(input.scalar_type());
    mpi_check(MPI_Iallgather(in_place ? MPI_IN_PLACE : input.const_data_ptr(), elements(input),
                             type, output.mutable_data_ptr(), elements(input), type, comm,
                             &request));
    return request;
  }};
}

Part broadcast_part(const at::Tensor& tensor, int root) {
  return {.start = [tensor, root](MPI_Comm comm, const Types& types) {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_check(MPI_Ibcast(tensor.mutable_data_ptr(), elements(tensor),
                         types.type_of(tensor.scalar_type()), root, comm, &request));
    return request;
  }};
}

Part all_to_all_part(const at::Tensor& input, const std::vector<Segment>& sent,
                     const at::Tensor& output, const std::vector<Segment>& received) {
  // Shared, since MPI reads the numbers until the operation is complete.
  const auto to = std::make_shared<const Counts>(sent);
  const auto from = std::make_shared<const Counts>(received);
  return {.start = [input, output, to, from](MPI_Comm comm, const Types& types) {
    MPI_Request request = MPI_REQUEST_NULL;
    const MPI_Datatype type = types.type_of(input.scalar_type());
    mpi_check(MPI_Ialltoallv(input.const_data_ptr(), to->lengths.data(), to->offsets.data(), type,
                             output.mutable_data_ptr(), from->lengths.data(), from->offsets.data(),
                             type, comm, &request));
    return request;
  }};
}

Part send_part(const at::Tensor& tensor, int to, int tag) {
  return {.start = [tensor, to, tag](MPI_Comm comm, const Types& types) {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_check(MPI_Isend(tensor.const_data_ptr(), elements(tensor),
                        types.type_of(tensor.scalar_type()), to, tag, comm, &request));
    return request;
  }};
}

Part receive_part(const at::Tensor& tensor, int from, int tag) {
  const auto start = [tensor, from, tag](MPI_Comm comm, const Types& types) {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_check(MPI_Irecv(tensor.mutable_data_ptr(), elements(tensor),
                        types.type_of(tensor.scalar_type()), from, tag, comm, &request));
    return request;
  };
  const auto check = [tensor, from](const MPI_Status& status) {
    int bytes = 0;
    mpi_check(MPI_Get_count(&status, MPI_BYTE, &bytes));
    require(bytes == MPI_UNDEFINED || static_cast<std::size_t>(bytes) == tensor.nbytes(),
            "receive over mpi: rank {} of the group sent {} bytes, the tensor has {}", from, bytes,
            tensor.nbytes());
  };
  return {.start = start, .after = check};
}

Part barrier_part() {
  return {.start = [](MPI_Comm comm, const Types&) {
    MPI_Request request = MPI_REQUEST_NULL;
    mpi_check(MPI_Ibarrier(comm, &request));
    return request;
  }};
}

}  // namespace daso::mpi
