// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/device.h"

#include <gtest/gtest.h>

#include "daso/base/version.h"
#include "refusal.h"

namespace daso::test {
namespace {

Gpu gpu_of(int major, int minor) { return {.name = "a GPU", .major = major, .minor = minor}; }

// Numbers of minor versions by major: all that CUDA 13 knows.
bool runs(const char* architectures, int major, int minor) {
  return built_for(architectures, gpu_of(major, minor));
}

TEST(BuiltFor, MachineCodeRunsOnItsOwnAndHigherMinorVersions) {
  EXPECT_TRUE(runs("80-real", 8, 0));
  EXPECT_TRUE(runs("80-real", 8, 9));
  EXPECT_FALSE(runs("80-real", 9, 0));
  EXPECT_FALSE(runs("86-real", 8, 0));
  EXPECT_FALSE(runs("80-real", 7, 5));
  EXPECT_TRUE(runs("100-real", 10, 3));
  EXPECT_FALSE(runs("100-real", 12, 0));
}

TEST(BuiltFor, PtxRunsOnWhateverIsNewer) {
  EXPECT_TRUE(runs("90", 12, 0));
  EXPECT_TRUE(runs("90-virtual", 9, 0));
  EXPECT_FALSE(runs("90", 8, 9));
}

TEST(BuiltFor, CodeForOneArchitectureAloneRunsThere) {
  EXPECT_TRUE(runs("90a", 9, 0));
  EXPECT_FALSE(runs("90a", 10, 0));
  EXPECT_FALSE(runs("100a", 10, 3));
  EXPECT_TRUE(runs("100f", 10, 3));
  EXPECT_FALSE(runs("100f", 12, 0));
}

TEST(BuiltFor, OneOfTheListSuffices) {
  constexpr const char* kDefault = "80-real 90-real 100";
  EXPECT_FALSE(runs(kDefault, 7, 5));
  for (const auto& [major, minor] : {std::pair{8, 6}, {9, 0}, {10, 0}, {12, 1}}) {
    EXPECT_TRUE(runs(kDefault, major, minor)) << major << '.' << minor;
  }
  EXPECT_FALSE(runs("", 9, 0));
}

TEST(ParseDevice, TakesWhatItWrites) {
  for (const char* text : {"auto", "cpu", "cuda", "cuda:0", "cuda:7"}) {
    EXPECT_EQ(text_of(parse_device(text)), text);
  }
  EXPECT_EQ(parse_device("cuda:7").index, 7);
  EXPECT_EQ(parse_device("auto"), DeviceChoice{});
}

TEST(ParseDevice, RefusesTheRest) {
  for (const char* text : {"", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:x", "cuda:99999999999"}) {
    EXPECT_EQ(refusal([&] { parse_device(text); }),
              fmt::format("a device is cpu, cuda, cuda:N (a GPU by its number, from 0) or auto; "
                          "got '{}'",
                          text));
  }
}

const DeviceModule kModule{.version = kVersion,
                           .built = "CUDA 13.0, sm_90",
                           .cuda = 13000,
                           .architectures = "90",
                           .facts = nullptr,
                           .kernels = nullptr};

GpuDriver driver_of(std::vector<Gpu> gpus, int cuda = 13000) {
  return {.there = true, .release = "580.95.05", .cuda = cuda, .gpus = std::move(gpus)};
}

TEST(ChooseGpu, DealsThemInTurn) {
  const GpuDriver driver = driver_of({gpu_of(9, 0), gpu_of(9, 0), gpu_of(9, 0)});
  std::vector<int> chosen;
  for (int place = 0; place < 5; ++place) chosen.push_back(choose_gpu({}, place, driver, kModule));
  EXPECT_EQ(chosen, (std::vector<int>{0, 1, 2, 0, 1}));
  EXPECT_EQ(choose_gpu(parse_device("cuda:2"), 0, driver, kModule), 2);
}

TEST(ChooseGpu, LeavesOutThoseThatTheModuleWasNotBuiltFor) {
  const GpuDriver driver = driver_of({gpu_of(6, 1), gpu_of(9, 0), gpu_of(8, 0), gpu_of(10, 0)});
  std::vector<int> chosen;
  for (int place = 0; place < 3; ++place) chosen.push_back(choose_gpu({}, place, driver, kModule));
  EXPECT_EQ(chosen, (std::vector<int>{1, 3, 1}));
}

TEST(ChooseGpu, RefusesAnArchitectureThatWasNotBuilt) {
  const std::string sentence =
      "GPU 0 (a GPU) is of architecture sm_75, for which the CUDA module was not built (CUDA 13.0, "
      "sm_90); DASO_CUDA_ARCHITECTURES=75 ./daso build --cuda builds it";
  const GpuDriver old = driver_of({gpu_of(7, 5)});
  EXPECT_EQ(refusal([&] { choose_gpu({}, 0, old, kModule); }), sentence);
  const GpuDriver mixed = driver_of({gpu_of(7, 5), gpu_of(9, 0)});
  EXPECT_EQ(refusal([&] { choose_gpu(parse_device("cuda:0"), 0, mixed, kModule); }), sentence);
}

TEST(ChooseGpu, RefusesANumberThatIsNotThere) {
  EXPECT_EQ(
      refusal([] { choose_gpu(parse_device("cuda:1"), 0, driver_of({gpu_of(9, 0)}), kModule); }),
      "this process sees 1 GPU, numbered from 0");
}

TEST(ChooseGpu, RefusesADriverOfAnOlderMajorVersion) {
  EXPECT_EQ(
      refusal([] { choose_gpu({}, 0, driver_of({gpu_of(9, 0)}, 12080), kModule); }),
      "the NVIDIA driver 580.95.05 is too old: it knows CUDA 12.8, and daso was built with CUDA "
      "13.0; install a newer driver");
  DeviceModule newer = kModule;
  newer.cuda = 13020;
  EXPECT_EQ(choose_gpu({}, 0, driver_of({gpu_of(9, 0)}), newer), 0);
}

TEST(FindDevice, AsksNobodyWhereTheCpuIsAskedFor) {
  const DeviceFound found = find_device(parse_device("cpu"), 3);
  EXPECT_TRUE(found.device.is_cpu());
  EXPECT_EQ(found.note, "");
}

}  // namespace
}  // namespace daso::test
