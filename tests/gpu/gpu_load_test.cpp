// SPDX-License-Identifier: Apache-2.0
#include "daso/base/gpu_load.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace daso::test {
namespace {

// A library that is loaded under this name is found by it, whatever folder it is in.
class StandInNvml : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(::dlopen(DASO_STAND_IN_NVML, RTLD_NOW | RTLD_LOCAL), nullptr) << ::dlerror();
  }
};

TEST_F(StandInNvml, TellsTheLoadOfAGpuOnceASecondAtMost) {
  ::setenv("STAND_IN_LOAD", "37", 1);
  GpuLoad load("0000:1a:00");
  EXPECT_EQ(load.share(), 0.37);
  ::setenv("STAND_IN_LOAD", "80", 1);
  EXPECT_EQ(load.share(), 0.37);  // as asked just now
  EXPECT_EQ(GpuLoad("0000:1a:00").share(), 0.8);
}

TEST_F(StandInNvml, SaysNothingWhereTheLibraryDoesNot) {
  ::unsetenv("STAND_IN_LOAD");
  EXPECT_EQ(GpuLoad("0000:1a:00").share(), std::nullopt);
  EXPECT_EQ(GpuLoad("0000:99:00").share(), std::nullopt);
}

}  // namespace
}  // namespace daso::test
