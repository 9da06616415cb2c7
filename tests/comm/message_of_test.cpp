// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/message_of.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>

#include "daso/base/error.h"

namespace daso {
namespace {

template <typename Act>
std::string message_after(const Act& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return message_of(error);
  }
  return "";
}

TEST(MessageOf, OurErrorsIsWhatTheySay) {
  EXPECT_EQ(message_of(ConfigError("one\ntwo")), "one\ntwo");
}

TEST(MessageOf, LibTorchsErrorsHasNoStack) {
  EXPECT_EQ(message_after([] { TORCH_CHECK(false, "sizes differ\nmore about them"); }),
            "sizes differ");
}

TEST(MessageOf, ShortMemoryTellsWhatWasAskedForAndWhatToDo) {
  const std::string torch = message_after([] {
    TORCH_CHECK(false, "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't ",
                "allocate memory: you tried to allocate 17179869184 bytes. Error code 12 (Cannot ",
                "allocate memory)");
  });
  EXPECT_EQ(torch.find("there is no memory for 17179869184 bytes more; take smaller batches"), 0U)
      << torch;
  const std::string standard = message_of(std::bad_alloc());
  EXPECT_EQ(standard.find("there is no memory; take smaller batches"), 0U) << standard;
}

}  // namespace
}  // namespace daso
