// SPDX-License-Identifier: Apache-2.0
// The conformance suite on ranks that are threads: gloo with 2, 3 and 4, self with 1.
#include "conformance.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "run_ranks.h"

namespace daso::test {
namespace {

using Case = std::tuple<Conformance, int>;

class Backends : public testing::TestWithParam<Case> {};

TEST_P(Backends, Conform) {
  const auto& [conformance, ranks] = GetParam();
  if (ranks == 1) {
    World world = World::alone();
    conformance.check(world);
    return;
  }
  std::vector<std::string> nodes;  // two nodes, the first one larger, taking turns
  for (int rank = 0; rank < ranks; ++rank) nodes.push_back(rank % 3 == 1 ? "b" : "a");
  run_ranks({.ranks = ranks, .nodes = nodes}, conformance.check);
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const auto& [conformance, ranks] = info.param;
  return fmt::format("{}On{}", conformance.name, ranks);
}

INSTANTIATE_TEST_SUITE_P(Threads, Backends,
                         testing::Combine(testing::ValuesIn(conformance_checks()),
                                          testing::Values(1, 2, 3, 4)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(SlowThreads, Backends,
                         testing::Combine(testing::ValuesIn(conformance_checks()),
                                          testing::Values(8)),
                         case_name);

}  // namespace
}  // namespace daso::test
