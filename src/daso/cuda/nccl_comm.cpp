// SPDX-License-Identifier: Apache-2.0
#include "daso/cuda/nccl_comm.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <utility>

#include "daso/base/abandonable.h"
#include "daso/base/error.h"

namespace daso::cuda {
namespace {

// For an abort, which can hang; the process then goes on without it. After a failure others wait
// for this rank's end.
constexpr Seconds kAfterFailure{0.5};
constexpr Seconds kAtTheEnd{5};

// The one gate for what NCCL answers. Work in progress is no problem: it is asked about later.
void nccl_check(ncclResult_t answer, ncclComm_t comm = nullptr) {
  if (answer == ncclSuccess || answer == ncclInProgress) return;
  const std::string more = ncclGetLastError(comm);
  throw NcclProblem(fmt::format("NCCL: {}{}{}", ncclGetErrorString(answer),
                                more.empty() ? "" : ": ", more.substr(0, more.find('\n'))));
}

}  // namespace

int nccl_version_code() {
  int code = 0;
  nccl_check(ncclGetVersion(&code));
  return code;
}

std::string nccl_version() {
  const int code = nccl_version_code();
  return fmt::format("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100);
}

ncclUniqueId new_nccl_id() {
  ncclUniqueId id;
  nccl_check(ncclGetUniqueId(&id));
  return id;
}

NcclComm::NcclComm(const NcclMembers& members, const Wait& wait, const Look& look)
    : device_(members.device), event_(members.device.type()) {
  const c10::cuda::CUDAGuard guard(device_);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  try {
    nccl_check(ncclCommInitRankConfig(&comm_, members.ranks, members.id, members.rank, &config),
               comm_);
    poll(wait, [&] {
      look();
      return is_settled();
    });
  } catch (...) {
    abort(kAfterFailure);
    throw;
  }
}

NcclComm::~NcclComm() { abort(kAtTheEnd); }

void NcclComm::run(const Calls& calls, const Wait& wait, const Look& look) {
  DASO_ASSERT(comm_ != nullptr);              // not after an abort
  const c10::cuda::CUDAGuard guard(device_);  // threads begin on the first device
  const auto stream = c10::cuda::getCurrentCUDAStream(device_.index());
  try {
    give(calls, stream.stream());
    // NCCL may connect to a peer first, in the background; only then is its kernel on the stream.
    poll(wait, [&] {
      look();
      return is_settled();
    });
    event_.record(stream.unwrap());
    poll(wait, [&] {
      const bool done = event_.query();  // first: who is done may leave
      if (!done) look();
      return is_settled() && done;
    });
  } catch (...) {
    abort(kAfterFailure);
    throw;
  }
}

void NcclComm::give(const Calls& calls, cudaStream_t stream) {
  nccl_check(ncclGroupStart());
  const ncclResult_t given = calls(comm_, stream);
  const ncclResult_t ended = ncclGroupEnd();  // in any case: it counts groups per thread
  nccl_check(given, comm_);
  nccl_check(ended, comm_);
}

bool NcclComm::is_settled() const {
  ncclResult_t state = ncclSuccess;
  nccl_check(ncclCommGetAsyncError(comm_, &state), comm_);
  nccl_check(state, comm_);
  return state != ncclInProgress;
}

void NcclComm::abort(Seconds limit) noexcept {
  if (comm_ == nullptr) return;
  const auto act = [comm = std::exchange(comm_, nullptr), device = device_] {
    const c10::cuda::CUDAGuard guard(device);
    ncclCommAbort(comm);
  };
  try {
    Abandonable("nccl abort").run(act, Deadline(limit));
  } catch (const std::exception&) {
    // No thread to be had, or a GPU that is lost: there is nothing left to stop.
  }
}

}  // namespace daso::cuda
