// SPDX-License-Identifier: Apache-2.0
// The ranks of a node over NCCL, and what libdaso_cuda.so exports of it.
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>

#include "daso/base/error.h"
#include "daso/base/version.h"
#include "daso/comm/group.h"
#include "daso/comm/link/cut.h"
#include "daso/comm/link/nccl_module.h"
#include "daso/cuda/nccl_comm.h"

namespace daso::cuda {
namespace {

constexpr Seconds kBetweenLooks{0.05};   // for ranks that have died
constexpr int kFirstThatShares = 23000;  // NCCL 2.30 lets several ranks use one GPU

// As text, since not every store takes any bytes.
std::string text_of(const ncclUniqueId& id) {
  std::string text;
  for (const char byte : id.internal) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

ncclUniqueId id_from(const std::string& text) {
  ncclUniqueId id;
  DASO_ASSERT(text.size() == 2 * sizeof id.internal);
  for (std::size_t i = 0; i < sizeof id.internal; ++i) {
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

// The ranks of a node whose GPUs NCCL reaches. A slice is reduced to its owner and broadcast from
// it, so all ranks get the same bits. NCCL neither compares what its ranks call nor notices that
// one has died: the first calls are compared over the store, and the dead are found by their
// signatures.
class NcclLink final : public NodeLink {
 public:
  explicit NcclLink(NcclPlan plan) : plan_(std::move(plan)) {
    const Wait wait = wait_for("opening the link", plan_.limit);
    guarded(wait, [&] {
      const NcclMembers members{
          .id = id_of_all(wait), .rank = rank(), .ranks = size(), .device = plan_.device};
      comm_ = std::make_unique<NcclComm>(members, wait, [&] { look_for_dead(wait); });
    });
  }

  int rank() const override { return plan_.name.rank; }
  int size() const override { return static_cast<int>(plan_.name.ranks.size()); }
  std::string kind() const override { return "NCCL " + nccl_version(); }
  bool shares_memory() const override { return false; }

  void reduce(const at::Tensor& tensor, Slices slices, Seconds limit) override {
    const Cut cut("reduce", tensor, slices, size(), plan_.device);
    check_reduced(tensor);
    auto* data = tensor.mutable_data_ptr<float>();
    run(cut, limit, [&](const Segment& part, int owner, ncclComm_t comm, cudaStream_t stream) {
      float* slice = data + part.begin;
      return ncclReduce(slice, slice, static_cast<std::size_t>(part.length()), ncclFloat32, ncclAvg,
                        owner, comm, stream);
    });
  }

  void gather(const at::Tensor& tensor, Slices slices, Seconds limit) override {
    const Cut cut("gather", tensor, slices, size(), plan_.device);
    auto* data = static_cast<std::byte*>(tensor.mutable_data_ptr());
    const auto element = static_cast<std::size_t>(tensor.element_size());
    run(cut, limit, [&](const Segment& part, int owner, ncclComm_t comm, cudaStream_t stream) {
      std::byte* slice = data + static_cast<std::size_t>(part.begin) * element;
      return ncclBroadcast(slice, slice, static_cast<std::size_t>(part.length()) * element,
                           ncclUint8, owner, comm, stream);
    });
  }

 private:
  ncclUniqueId id_of_all(const Wait& wait) const {
    constexpr const char* kKey = "nccl";
    if (rank() == 0) plan_.store.set(kKey, text_of(new_nccl_id()));
    std::optional<std::string> text;
    poll(wait, [&] {
      text = plan_.store.find(kKey);
      return text.has_value();
    });
    return id_from(*text);
  }

  // Gives NCCL a call for each slice that holds something.
  template <typename CallOfSlice>
  void run(const Cut& cut, Seconds limit, const CallOfSlice& call_of_slice) {
    const std::int64_t number = plan_.name.begun->fetch_add(1);
    const Wait wait = wait_for(cut.text(), limit, number);
    if (const auto failure = plan_.guard.alarm->raised()) throw_failure(wait.call, *failure);
    if (plan_.check_all || number < Group::kChecked) compare(wait.call);
    if (cut.longest() == 0) return;
    guarded(wait, [&] {
      comm_->run(
          [&](ncclComm_t comm, cudaStream_t stream) {
            ncclResult_t answer = ncclSuccess;
            for (int slice = 0; slice < cut.slices() && answer == ncclSuccess; ++slice) {
              const Segment part = cut.of(slice);
              if (part.length() > 0) answer = call_of_slice(part, cut.owner(slice), comm, stream);
            }
            return answer;
          },
          wait, [&] { look_for_dead(wait); });
    });
  }

  // What NCCL calls a problem is mostly a peer's end; the roll call tells.
  void guarded(const Wait& wait, const std::function<void()>& act) const {
    try {
      act();
    } catch (const NcclProblem& problem) {
      throw_failure(wait.call,
                    plan_.guard.lookout->ring(fmt::format("failed ({})", problem.what())));
    }
  }

  void look_for_dead(const Wait& wait) {
    if (!plan_.signatures || since(last_look_) < kBetweenLooks) return;
    last_look_ = Clock::now();
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank() || plan_.signatures->has_signed(peer)) continue;
      throw_failure(wait.call, plan_.guard.lookout->ring(
                                   fmt::format("rank {} has left the node", world_rank_of(peer))));
    }
  }

  void compare(const Call& call) const {
    compare_calls({.store = plan_.store,
                   .key = fmt::format("call/{}", call.number),
                   .callers = size(),
                   .rank = world_rank_of(rank())},
                  call, plan_.guard);
  }

  Wait wait_for(const std::string& what, Seconds limit, std::int64_t number = 0) const {
    return {.guard = plan_.guard,
            .call = {.what = what, .group = plan_.name.text, .number = number},
            .limit = limit};
  }

  int world_rank_of(int peer) const { return plan_.name.ranks[static_cast<std::size_t>(peer)]; }

  const NcclPlan plan_;
  Clock::time_point last_look_ = Clock::now();
  std::unique_ptr<NcclComm> comm_;
};

NcclSeat seat(at::Device device) {
  char bus[32] = {};
  require(cudaDeviceGetPCIBusId(bus, sizeof bus, device.index()) == cudaSuccess,
          "{} gives no answer: {}", device.str(), cudaGetErrorString(cudaGetLastError()));
  const char* shares = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return {.gpu = bus,
          .version = nccl_version(),
          .shares_gpu = nccl_version_code() >= kFirstThatShares && shares != nullptr &&
                        std::strcmp(shares, "1") == 0};
}

}  // namespace
}  // namespace daso::cuda

extern "C" const daso::NcclModule* daso_nccl_module() {
  static constexpr daso::NcclModule kModule{
      .version = daso::kVersion,
      .detail = [] { return "NCCL " + daso::cuda::nccl_version(); },
      .seat = daso::cuda::seat,
      .open = [](daso::NcclPlan plan) -> std::unique_ptr<daso::NodeLink> {
        return std::make_unique<daso::cuda::NcclLink>(std::move(plan));
      }};
  return &kModule;
}
