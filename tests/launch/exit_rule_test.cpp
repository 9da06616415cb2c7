// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/exit_rule.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace daso {
namespace {

RankEnd code(int rank, int value) { return {.rank = rank, .code = value}; }
RankEnd by(int rank, int signal) { return {.rank = rank, .signal = signal}; }
RankEnd asked(RankEnd end) {
  end.asked = true;
  return end;
}

JobEnd judged(const std::vector<RankEnd>& ends) { return judge(ends, {}); }

TEST(ExitRule, IsZeroWhenAllEndWell) {
  const JobEnd job = judged({code(0, 0), code(1, 0)});
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_FALSE(job.lost);
  EXPECT_FALSE(job.failed);
}

TEST(ExitRule, TakesTheFirstCodeThatIsNeitherZeroNorThree) {
  const JobEnd job = judged({code(2, 3), code(1, 0), code(0, 2), code(3, 1)});
  EXPECT_EQ(job.exit_code, 2);
  EXPECT_EQ(job.failed, code(0, 2));
  EXPECT_FALSE(job.lost);
}

TEST(ExitRule, IsThreeWhenRanksOnlyMissOthers) {
  const JobEnd job = judged({code(0, 0), code(1, 3)});
  EXPECT_EQ(job.exit_code, 3);
  EXPECT_FALSE(job.failed);
}

TEST(ExitRule, TreatsARankEndedByASignalAsALostPeer) {
  const JobEnd job = judged({code(0, 3), by(3, SIGKILL), by(1, SIGSEGV), code(2, 1)});
  EXPECT_EQ(job.exit_code, 3);
  EXPECT_EQ(job.lost, by(3, SIGKILL));
  EXPECT_FALSE(job.failed);  // code 1 came after it
}

TEST(ExitRule, ShowsTheCodeThatCameBeforeTheSignalAsWell) {
  const JobEnd job = judged({code(2, 1), by(0, SIGABRT)});
  EXPECT_EQ(job.exit_code, 3);
  EXPECT_EQ(job.lost, by(0, SIGABRT));
  EXPECT_EQ(job.failed, code(2, 1));
}

TEST(ExitRule, IgnoresRanksThatWereAskedToEndAfterAFailure) {
  EXPECT_EQ(judged({code(1, 7), asked(by(0, SIGTERM)), asked(by(2, SIGKILL)), asked(code(3, 1))})
                .exit_code,
            7);
  EXPECT_FALSE(judged({code(1, 7), asked(by(0, SIGTERM))}).lost);
}

TEST(ExitRule, CountsASignalThatWasPassedOnLikeAShell) {
  const JobEnd job = judge({by(0, SIGINT), by(1, SIGINT)}, {.passed_on = SIGINT});
  EXPECT_EQ(job.exit_code, 130);
  EXPECT_FALSE(job.lost);
  EXPECT_FALSE(job.failed);
}

TEST(ExitRule, IsWhatTheRanksSayAfterAPassedOnSignal) {
  EXPECT_EQ(judge({code(0, 0), code(1, 0)}, {.passed_on = SIGTERM}).exit_code, 0);
  EXPECT_EQ(judge({code(0, 3), code(1, 130)}, {.passed_on = SIGINT}).exit_code, 130);
  EXPECT_FALSE(judge({code(1, 130)}, {.passed_on = SIGINT}).failed);
  EXPECT_EQ(judge({code(0, 0), code(1, 5)}, {.passed_on = SIGTERM}).failed, code(1, 5));
}

TEST(ExitRule, IsNotWellWhenARankHadToBeKilledAfterAPassedOnSignal) {
  EXPECT_EQ(judge({code(0, 0), asked(by(1, SIGKILL))}, {.passed_on = SIGTERM}).exit_code, 143);
}

TEST(ExitRule, StillNamesARankThatAnotherSignalEnded) {
  const JobEnd job = judge({by(0, SIGSEGV), code(1, 0)}, {.passed_on = SIGTERM});
  EXPECT_EQ(job.exit_code, 3);
  EXPECT_EQ(job.lost, by(0, SIGSEGV));
}

TEST(ExitRule, HasACodeForAJobThatWasStoppedAndCanGoOn) {
  const JobEnd job = judge({code(0, 75), code(1, 75)}, {.passed_on = SIGTERM});
  EXPECT_EQ(job.exit_code, kExitStopped);
  EXPECT_TRUE(job.stopped);
  EXPECT_FALSE(job.failed);
  // Another launcher has passed the signal on.
  EXPECT_TRUE(judged({code(0, 75), code(1, 75)}).stopped);
  EXPECT_EQ(judge({code(0, 9), code(1, 9)}, {.stopped_exit = 9}).exit_code, 9);
  EXPECT_FALSE(judge({code(0, 9), code(1, 9)}, {.stopped_exit = 9}).failed);
}

TEST(ExitRule, CountsASignalThatCameTooEarlyAsStopped) {
  const JobRule rule{.passed_on = SIGTERM, .begins_anew = true};
  EXPECT_EQ(judge({by(0, SIGTERM), by(1, SIGTERM)}, rule).exit_code, kExitStopped);
  EXPECT_EQ(judge({code(0, 75), by(1, SIGTERM), code(2, 3)}, rule).exit_code, kExitStopped);
  EXPECT_EQ(judge({code(0, 75), asked(by(1, SIGKILL))}, rule).exit_code, 143);
}

TEST(ExitRule, IsNotOnlyStoppedWhereARankFailedOrWasLost) {
  EXPECT_EQ(judge({code(0, 75), code(1, 1)}, {.passed_on = SIGTERM}).exit_code, 1);
  EXPECT_EQ(judge({code(0, 75), by(1, SIGKILL)}, {.passed_on = SIGTERM}).exit_code, 3);
  EXPECT_EQ(judged({code(0, 75), code(1, 3)}).exit_code, 3);
}

TEST(ExitRule, ForgetsLostRanksWhenSurvivorsAreKept) {
  EXPECT_EQ(judge({by(1, SIGKILL), code(0, 0)}, {.keep_survivors = true}).exit_code, 0);
  EXPECT_EQ(judge({by(1, SIGKILL), code(0, 0), code(2, 1)}, {.keep_survivors = true}).exit_code, 1);
  EXPECT_EQ(judge({by(1, SIGKILL), by(0, SIGKILL)}, {.keep_survivors = true}).exit_code, 3);
  // It was excluded, or its machine was lost.
  EXPECT_EQ(judge({code(1, 3), code(0, 0)}, {.keep_survivors = true}).exit_code, 0);
  EXPECT_EQ(judge({code(1, 3), code(0, 3)}, {.keep_survivors = true}).exit_code, 3);
}

TEST(ExitRule, ForgetsWhoHasLeftAJobThatOthersFinish) {
  EXPECT_EQ(judge({code(1, 75), code(0, 0)}, {.keep_survivors = true}).exit_code, 0);
  EXPECT_EQ(judge({code(1, 75), code(0, 75)}, {.keep_survivors = true}).exit_code, 75);
  EXPECT_EQ(judge({code(1, 75), code(0, 1)}, {.keep_survivors = true}).exit_code, 1);
  // All were told to stop.
  const JobRule told{.passed_on = SIGTERM, .keep_survivors = true};
  EXPECT_EQ(judge({code(1, 75), code(0, 0)}, told).exit_code, 75);
}

TEST(ExitRule, NamesTheRankThatReportedTheCauseAndNotTheOneThatEndedFirst) {
  const std::vector<RankEnd> ends = {code(2, 2), code(1, 3), code(0, 2)};
  EXPECT_EQ(first_cause(ends[0], ends, {0}), ends[2]);
  EXPECT_EQ(first_cause(ends[0], ends, {}), ends[0]);
}

TEST(ExitRule, NamesNoRankForALineThatDidNotEndIt) {
  const std::vector<RankEnd> ends = {code(3, 1), code(0, 0), code(1, 3), code(2, 1)};
  EXPECT_EQ(first_cause(ends[0], ends, {0, 1, 2}), ends[3]);
  EXPECT_EQ(first_cause(ends[0], ends, {0, 1}), ends[0]);
}

// It reported its error and then hung.
TEST(ExitRule, NamesTheCauseAlsoWhereItHadToBeEnded) {
  const std::vector<RankEnd> ends = {code(1, 2), asked(by(0, SIGTERM))};
  EXPECT_EQ(first_cause(ends[0], ends, {0}), ends[1]);
}

TEST(ExitRule, SpeaksOfEnds) {
  EXPECT_EQ(text(by(0, SIGKILL)), "was ended by signal 9 (Killed)");
  EXPECT_EQ(text(by(0, SIGSEGV)), "was ended by signal 11 (Segmentation fault)");
  EXPECT_EQ(text(code(0, 4)), "ended with exit code 4");
}

}  // namespace
}  // namespace daso
