// SPDX-License-Identifier: Apache-2.0
// The conformance suite on ranks that are processes: started by any launcher, it joins the world
// that its environment tells of and runs all checks in it.
//
//   mpirun -n 3 conformance_job mpi
#include <gtest/gtest.h>

#include "conformance.h"

namespace daso::test {
namespace {

int run(World& world) {
  for (const Conformance& conformance : conformance_checks()) {
    testing::RegisterTest("Job", conformance.name, nullptr, nullptr, __FILE__, __LINE__,
                          [&world, check = conformance.check]() -> testing::Test* {
                            struct Check : testing::Test {
                              Check(World& in, void (*what)(World&)) : world(in), check(what) {}
                              void TestBody() override { check(world); }
                              World& world;
                              void (*check)(World&);
                            };
                            return new Check(world, check);
                          });
  }
  const int failed = RUN_ALL_TESTS();
  if (world.rank() == 0 && failed == 0) std::printf("conforms with %d ranks\n", world.size());
  return failed;
}

}  // namespace
}  // namespace daso::test

int main(int argc, char** argv) {
  testing::GTEST_FLAG(brief) = true;
  testing::InitGoogleTest(&argc, argv);
  daso::WorldOptions options;
  if (const auto place = daso::place_from(daso::this_environment())) options.place = *place;
  if (argc > 1) options.backend = argv[1];
  return daso::rank_main(options, daso::test::run);
}
