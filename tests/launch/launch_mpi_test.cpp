// SPDX-License-Identifier: Apache-2.0
// The launcher through mpirun. Its ranks are shell scripts: mpirun treats them like others.
#include <gtest/gtest.h>

#include "launched.h"

namespace daso::test {
namespace {

constexpr const char* kStay = "while :; do sleep 0.05; done";

class LaunchMpi : public ::testing::Test {
 protected:
  static std::vector<std::string> script(const std::string& text) {
    return Launched::script({"--backend", "mpi", "--ranks", "2,1"}, text);
  }
};

TEST_F(LaunchMpi, LeavesTheNumbersToMpirunAndTellsNodeAndStore) {
  Launched job(
      script("echo $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE $DASO_NODE $DASO_LAUNCHER "
             "${RANK:-none} ${DASO_RENDEZVOUS%:*}"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.output(), "0 3 node0 daso none 127.0.0.1\n");
  EXPECT_EQ(occurrences(job.error(), "[0.1] 1 3 node0 daso none 127.0.0.1\n"), 1U) << job.error();
  EXPECT_EQ(occurrences(job.error(), "[1.0] 2 3 node1 daso none 127.0.0.1\n"), 1U) << job.error();
}

TEST_F(LaunchMpi, PassesLongLinesAndArgumentsOnUnchanged) {
  Launched job({"--backend", "mpi", "--", "sh", "-c",
                "head -c 100000 /dev/zero; printf '%s' \"$1\"", "sh", "two words; $HOME"});
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.output(), std::string(100000, '\0') + "two words; $HOME");
}

TEST_F(LaunchMpi, NamesAKilledRankInOneLine) {
  Launched job(script(std::string("[ $OMPI_COMM_WORLD_RANK = 2 ] && kill -9 $$; ") + kStay));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(
      job.error(),
      "daso: rank 2 (node1.0) was ended by signal 9 (Killed); the job ends with exit code 3\n");
}

TEST_F(LaunchMpi, GivesTheCodeOfTheRankThatFailedAndItsLastLines) {
  Launched job(
      script(std::string("[ $OMPI_COMM_WORLD_RANK = 1 ] && { echo why; exit 7; }; ") + kStay));
  EXPECT_EQ(job.wait(), 7);
  EXPECT_EQ(job.error(),
            "[0.1] why\n"
            "daso: rank 1 (node0.1) ended with exit code 7; its last lines:\n"
            "    why\n");
}

TEST_F(LaunchMpi, ShowsWhatTheRanksSayAboutALostPeer) {
  Launched job(script("echo 'daso: lost peer: late' >&2; exit 3"));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(job.error(), "daso: lost peer: late\n");
}

TEST_F(LaunchMpi, PassesSignalsOnToTheRanksThemselves) {
  Launched job(script(std::string("trap 'echo saved; exit 0' TERM; echo pid $$; ") + kStay));
  job.process_numbers(3);
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(occurrences(job.output() + job.error(), "saved\n"), 3U);
}

TEST_F(LaunchMpi, LeavesNobodyBehindWhenItIsKilled) {
  Launched job(Launched::script({"--backend", "mpi", "--ranks", "2", "--grace", "0.5"},
                                std::string("trap '' TERM; echo pid $$; ") + kStay));
  const std::vector<pid_t> ranks = job.process_numbers(2);
  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank));
}

TEST_F(LaunchMpi, QuotesMpirunWhereItNamesNoRank) {
  ::setenv("OMPI_MCA_rmaps", "no_such_component", 1);
  Launched job(script("echo never"));
  ::unsetenv("OMPI_MCA_rmaps");
  EXPECT_NE(job.wait(), 0);
  EXPECT_EQ(job.output(), "");
  EXPECT_NE(job.error().find("no_such_component"), std::string::npos) << job.error();
  EXPECT_NE(job.error().find("daso: mpirun ended with exit code"), std::string::npos);
}

}  // namespace
}  // namespace daso::test
