// SPDX-License-Identifier: Apache-2.0
// MPI cannot go on without a rank, nor notice that one is stopped: the limit must end the job.
#include <gtest/gtest.h>

#include "daso/base/error.h"
#include "process.h"

namespace daso::test {
namespace {

TEST(FaultsOnMpi, AStoppedRankEndsTheJobWhenTheLimitIsOver) {
  Process launcher({DASO_PROGRAM, "run", "--ranks-per-node", "3", "--backend", "mpi", "--grace",
                    "1", "--", DASO_FAULT_PROBE, "40", "1", "before", "stop"},
                   {{"DASO_TEST_TIMEOUT", "2"}, {"DASO_TEST_BACKEND", "mpi"}});
  EXPECT_EQ(launcher.wait(Seconds(30)).code, kExitPeer);
  EXPECT_NE(launcher.standard_error().find("over mpi did not finish within 2 s"), std::string::npos)
      << launcher.standard_error();
}

}  // namespace
}  // namespace daso::test
