// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/draws.h"

#include <gtest/gtest.h>

#include <set>

namespace daso {
namespace {

TEST(DrawKey, EverySenderOfEveryExchangeHasItsOwn) {
  std::set<std::uint64_t> keys;
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    for (std::int64_t exchange = 0; exchange < 100; ++exchange) {
      for (std::int64_t sender = kMeanSender; sender < 16; ++sender) {
        keys.insert(draw_key(seed, exchange, sender));
      }
    }
  }
  EXPECT_EQ(keys.size(), 3U * 100 * 17);
  EXPECT_EQ(keys.count(draw_key(2, 99, 15)), 1U);  // the same when asked again
}

}  // namespace
}  // namespace daso
