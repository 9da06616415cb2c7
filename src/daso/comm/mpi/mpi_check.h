// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <optional>
#include <source_location>
#include <utility>
#include <vector>

// The gate that every MPI call passes, and the owners of MPI's handles. All of it is for the
// progress thread alone, between MPI_Init and MPI_Finalize.
namespace daso::mpi {

// Throws ConfigError where the code says that this call does not fit its peers' (a message longer
// than its buffer), PeerError where MPI can no longer reach them.
void mpi_check(int code, std::source_location where = std::source_location::current());

// Owns one handle; a moved-from owner owns none.
template <typename Handle, int (*kFree)(Handle*)>
class Owned {
 public:
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, std::nullopt)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_) static_cast<void>(kFree(&*handle_));  // a destructor has nobody to tell
  }

  Handle get() const { return handle_.value(); }

 private:
  std::optional<Handle> handle_;
};

using MpiComm = Owned<MPI_Comm, &MPI_Comm_free>;
using MpiGroup = Owned<MPI_Group, &MPI_Group_free>;
using MpiOp = Owned<MPI_Op, &MPI_Op_free>;

// A communicator of these ranks of MPI_COMM_WORLD. Called by them and by nobody else; blocks until
// all of them do. Its errors come back as codes.
MpiComm make_communicator(const std::vector<int>& ranks);

}  // namespace daso::mpi
