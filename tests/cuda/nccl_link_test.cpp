// SPDX-License-Identifier: Apache-2.0
// The node link on GPUs, with real processes that share one or have one each. NCCL before 2.30
// takes one rank per GPU: with more ranks than GPUs its tests are skipped, unless a newer one is
// loaded:
//
//   LD_PRELOAD=/path/to/libnccl.so.2 nccl_link_test
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "daso/base/error.h"
#include "daso/comm/link/nccl_module.h"
#include "daso/comm/network.h"
#include "daso/tensor/device.h"
#include "process.h"

namespace daso::test {
namespace {

constexpr Seconds kPatience{90};
constexpr const char* kShareGpu = "NCCL_MULTI_RANK_GPU_ENABLE";

enum class Way { kNccl, kStaged };
using Case = std::tuple<Way, int>;

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const auto& [way, ranks] = info.param;
  return (way == Way::kNccl ? "NcclOn" : "PinnedMemoryOn") + std::to_string(ranks);
}

class DeviceLinks : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    int gpus = 0;
    at::Device device(at::kCPU);
    try {
      device = find_device({.kind = DeviceChoice::Kind::kCuda}, /*place=*/0).device;
      gpus = static_cast<int>(gpu_driver().gpus.size());
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
    if (way() == Way::kStaged) return;
    const NcclFound nccl = find_nccl();
    if (nccl.module == nullptr) GTEST_SKIP() << nccl.reason;
    ::setenv(kShareGpu, "1", 1);
    if (gpus < ranks() && !nccl.module->seat(device).shares_gpu) {
      GTEST_SKIP() << nccl.module->detail() << " takes one rank per GPU, and " << ranks()
                   << " ranks have " << gpus << " here; NCCL 2.30 and later let them share one";
    }
  }

  Way way() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  int victim() const { return ranks() - 1; }

  // Ranks on one GPU do not get NCCL unless they say that they share it.
  void start(const std::string& mode, int limit = 60) {
    store_ = Store::host(listen_on({"127.0.0.1", 0}));
    for (int rank = 0; rank < ranks(); ++rank) {
      processes_.emplace_back(std::vector<std::string>{DASO_NCCL_LINK_JOB, mode},
                              std::map<std::string, std::string>{
                                  {"RANK", std::to_string(rank)},
                                  {"LOCAL_RANK", std::to_string(rank)},
                                  {"WORLD_SIZE", std::to_string(ranks())},
                                  {"MASTER_ADDR", store_->address().host},
                                  {"MASTER_PORT", std::to_string(store_->address().port)},
                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                  {"DASO_NODE", "node0"},
                                  {"DASO_TEST_TIMEOUT", std::to_string(limit)},
                                  {"DASO_TEST_DEVICE", nccl() ? "cuda" : "cuda:0"},
                                  {kShareGpu, nccl() ? "1" : "0"},
                                  {"OMP_NUM_THREADS", "1"}});
    }
  }

  bool nccl() const { return way() == Way::kNccl; }
  Process& process(int rank) { return processes_.at(static_cast<std::size_t>(rank)); }
  std::string first_line() const {
    return nccl() ? "over " + find_nccl().module->detail() : "over pinned memory and shared memory";
  }

  bool runs() const {
    return holds_within(kPatience, [this] {
      return std::all_of(processes_.begin(), processes_.end(), [this](const Process& rank) {
        const std::string output = rank.standard_output();
        return output.find(first_line() + "\nrunning\n") != std::string::npos;
      });
    });
  }

  // Every rank but the victim must end with 3 and name it and the operation; gives the seconds
  // until the last one had.
  double survivors_end(Clock::time_point from) {
    double longest = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      if (rank == victim()) continue;
      const Ending ending = process(rank).wait(kPatience);
      const std::string text = process(rank).standard_error();
      EXPECT_EQ(ending.code, kExitPeer) << "rank " << rank << ": " << text;
      EXPECT_NE(text.find("rank " + std::to_string(victim()) + " (node0 on host "),
                std::string::npos)
          << text;
      EXPECT_NE(text.find("in group 'node 0 link test on cuda'"), std::string::npos) << text;
      longest = std::max(longest, Seconds(ending.when - from).count());
    }
    return longest;
  }

 private:
  std::optional<Store> store_;
  std::vector<Process> processes_;
};

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceLinks,
                         testing::Combine(testing::Values(Way::kNccl, Way::kStaged),
                                          testing::Values(2, 4)),
                         case_name);

TEST_P(DeviceLinks, DoWhatLinksDo) {
  start("check");
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(process(rank).wait(kPatience).code, 0)
        << process(rank).standard_output() << process(rank).standard_error();
    const std::string output = process(rank).standard_output();
    EXPECT_NE(output.find(first_line() + "\n"), std::string::npos) << output;
    EXPECT_NE(output.find("conforms"), std::string::npos) << output;
  }
}

TEST_P(DeviceLinks, NameARankThatIsKilledWithinTwoSeconds) {
  start("loop");
  ASSERT_TRUE(runs()) << process(0).standard_output() << process(0).standard_error();
  process(victim()).send(SIGKILL);
  const Ending death = process(victim()).wait(kPatience);
  EXPECT_EQ(death.code, 128 + SIGKILL);
  const double seconds = survivors_end(death.when);
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, 2.0);
}

TEST_P(DeviceLinks, NameARankThatIsStoppedWhenTheLimitIsOver) {
  start("loop", /*limit=*/5);
  ASSERT_TRUE(runs()) << process(0).standard_output() << process(0).standard_error();
  const auto from = Clock::now();
  process(victim()).send(SIGSTOP);
  const double seconds = survivors_end(from);
  EXPECT_GT(seconds, 4.9);
  EXPECT_LT(seconds, 8.0);
}

TEST_P(DeviceLinks, RefuseRanksThatCallDifferentThings) {
  start("mismatch");
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(process(rank).wait(kPatience).code, kExitConfig);
    const std::string text = process(rank).standard_error();
    EXPECT_NE(text.find("operation #1 in group 'node 0 link test on cuda' differs between ranks"),
              std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace daso::test
