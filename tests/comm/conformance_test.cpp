// SPDX-License-Identifier: Apache-2.0
// The conformance suite on ranks that are threads: gloo and tcp with 2, 3 and 4, self with 1.
#include "conformance.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "run_ranks.h"

namespace daso::test {
namespace {

using Case = std::tuple<Conformance, int, std::string>;

class Backends : public testing::TestWithParam<Case> {};

TEST_P(Backends, Conform) {
  const auto& [conformance, ranks, backend] = GetParam();
  if (ranks == 1) {
    World world = World::alone();
    conformance.check(world);
    return;
  }
  std::vector<std::string> nodes;  // two nodes, the first one larger, taking turns
  for (int rank = 0; rank < ranks; ++rank) nodes.push_back(rank % 3 == 1 ? "b" : "a");
  run_ranks({.ranks = ranks,
             .nodes = nodes,
             .edit = [&](WorldOptions& options) { options.backend = backend; }},
            conformance.check);
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const auto& [conformance, ranks, backend] = info.param;
  return fmt::format("{}On{}Of{}", conformance.name, ranks, backend);
}

INSTANTIATE_TEST_SUITE_P(Alone, Backends,
                         testing::Combine(testing::ValuesIn(conformance_checks()),
                                          testing::Values(1), testing::Values("self")),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Threads, Backends,
                         testing::Combine(testing::ValuesIn(conformance_checks()),
                                          testing::Values(2, 3, 4), testing::Values("gloo", "tcp")),
                         case_name);
INSTANTIATE_TEST_SUITE_P(SlowThreads, Backends,
                         testing::Combine(testing::ValuesIn(conformance_checks()),
                                          testing::Values(8), testing::Values("gloo", "tcp")),
                         case_name);

}  // namespace
}  // namespace daso::test
