// SPDX-License-Identifier: Apache-2.0
// MPI cannot go on without a rank, nor notice that one is stopped: the limit must end the job.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daso/base/error.h"
#include "process.h"

namespace daso::test {
namespace {

using Words = std::vector<std::string>;

const Words kByDaso = {DASO_PROGRAM, "run", "--ranks-per-node", "3", "--backend", "mpi", "--grace",
                       "1",          "--"};
const Words kByMpirun = {
    "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "3"};

struct Job {
  std::string limit = "60";
  std::string rounds = "40";
};

Process probe(Words launcher, const Words& faults, const Job& job = {}) {
  launcher.insert(launcher.end(), {DASO_FAULT_PROBE, job.rounds});
  launcher.insert(launcher.end(), faults.begin(), faults.end());
  return Process(launcher, {{"DASO_TEST_TIMEOUT", job.limit}, {"DASO_TEST_BACKEND", "mpi"}});
}

// In the middle of the job, and before the ranks' first group is made.
TEST(FaultsOnMpi, AStoppedRankIsNamedWhenTheLimitIsOver) {
  for (const char* rounds : {"40", "1"}) {
    Process launcher = probe(kByDaso, {"1", "before", "stop"}, {.limit = "2", .rounds = rounds});
    EXPECT_EQ(launcher.wait(Seconds(30)).code, kExitPeer);
    const std::string shown = launcher.standard_error();
    const std::size_t named = shown.find("'everyone': rank 1 (");
    ASSERT_NE(named, std::string::npos) << shown;
    EXPECT_NE(shown.find("did not answer the roll call", named), std::string::npos) << shown;
  }
}

// To Open MPI a process that MPICH's mpirun has started is alone, and the other way round.
TEST(FaultsOnMpi, AnMpirunOfAnotherMpiIsNamedWithOurs) {
  for (const char* backend : {"mpi", "gloo"}) {
    Process rank({DASO_FAULT_PROBE, "1"}, {{"PMI_RANK", "1"},
                                           {"PMI_SIZE", "2"},
                                           {"MPI_LOCALRANKID", "1"},
                                           {"DASO_TEST_BACKEND", backend}});
    EXPECT_EQ(rank.wait(Seconds(60)).code, kExitConfig);
    const std::string shown = rank.standard_error();
    EXPECT_NE(shown.find("MPICH's mpirun (PMI_SIZE) has started 2 ranks"), std::string::npos)
        << shown;
    EXPECT_NE(shown.find("which finds 1"), std::string::npos) << shown;
  }
}

// The others are inside MPI or wait for the rank; it must wait for none of them.
TEST(FaultsOnMpi, ARankThatCannotJoinSaysWhyAndEndsTheJobAtOnce) {
  for (const Words& launcher : {kByDaso, kByMpirun}) {
    for (const char* rank : {"0", "1"}) {
      SCOPED_TRACE(launcher.front() + ", rank " + rank);
      Process job = probe(launcher, {rank, "join", "device"});
      EXPECT_EQ(job.wait(Seconds(30)).code, kExitConfig);
      EXPECT_NE(job.standard_error().find("daso: there is no network device 'nowhere' here"),
                std::string::npos)
          << job.standard_error();
    }
  }
}

TEST(FaultsOnMpi, RanksThatDoNotFitEndTheJobAtOnce) {
  for (const Words& launcher : {kByDaso, kByMpirun}) {
    SCOPED_TRACE(launcher.front());
    Process job = probe(launcher, {"1", "join", "config"});
    EXPECT_EQ(job.wait(Seconds(30)).code, kExitConfig);
    EXPECT_NE(job.standard_error().find("does not fit rank 0: the configuration differs"),
              std::string::npos)
        << job.standard_error();
  }
}

}  // namespace
}  // namespace daso::test
