// SPDX-License-Identifier: Apache-2.0
#include "daso/base/large_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace daso {
namespace {

// Advice changes neither what the memory holds nor who owns its neighbours, wherever it begins and
// however long it is.
TEST(LargePages, AdviceLeavesMemoryAsItWas) {
  std::vector<std::byte> memory(5 << 20, std::byte{7});
  const std::span<std::byte> all = memory;
  for (const std::size_t begin : {0U, 1U, 4096U, 1000001U}) {
    for (const std::size_t bytes : {0U, 1U, 4095U, 4097U, 3U << 20U}) {
      advise_large_pages(all.subspan(begin, bytes));
    }
  }
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{7}), 5 << 20);
  advise_large_pages({});
}

}  // namespace
}  // namespace daso
