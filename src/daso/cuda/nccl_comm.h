// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Event.h>
#include <nccl.h>

#include <functional>
#include <stdexcept>

#include "daso/comm/link/polling.h"

namespace daso::cuda {

// NCCL's own words about what went wrong.
struct NcclProblem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string nccl_version();  // of the library that is loaded: 2.28.9
int nccl_version_code();     // the same as NCCL counts: 22809

ncclUniqueId new_nccl_id();  // by which ranks find each other

// What a communicator is made from, on the ranks of a node.
struct NcclMembers {
  ncclUniqueId id;  // the same on all
  int rank = 0;
  int ranks = 1;
  at::Device device;
};

// Owns one communicator of NCCL. Nothing here blocks without a limit: NCCL is told not to, and
// whatever waits asks again and again whether it is done, whether NCCL has met an error, and
// whether the alarm is raised. Waits throw NcclProblem, or as Pending::wait does; after either, and
// at its end, the communicator is aborted, which is the only way to stop a kernel that waits for a
// peer.
class NcclComm {
 public:
  // Called while something is waited for; throws to end that.
  using Look = std::function<void()>;
  using Calls = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;

  // Blocks until all ranks have come.
  NcclComm(const NcclMembers& members, const Wait& wait, const Look& look);
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;
  ~NcclComm();

  // Gives NCCL these calls as one group, behind what the calling thread's current stream has been
  // given, and waits until the device has done them. For one thread at a time.
  void run(const Calls& calls, const Wait& wait, const Look& look);

 private:
  void give(const Calls& calls, cudaStream_t stream);
  // Stops what runs and frees what is ours, waiting for no peer. Gives up where NCCL does not
  // return.
  void abort(Seconds limit) noexcept;
  bool is_settled() const;  // NCCL works on nothing that it was given before

  const at::Device device_;
  ncclComm_t comm_ = nullptr;
  c10::Event event_;
};

}  // namespace daso::cuda
