// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/launch.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daso/base/error.h"
#include "daso/comm/network.h"
#include "daso/launch/stop_signals.h"
#include "launched.h"
#include "process.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

using Flags = std::vector<std::string>;

// What ranks do that run until they are told to end.
constexpr const char* kStay = "while :; do sleep 0.05; done";

std::uint16_t free_port() { return bound_address(listen_on({"127.0.0.1", 0})).port; }

TEST(Launch, NumbersRanksNodeByNode) {
  Launched job(Launched::script(
      {"--ranks", "2,1"},
      "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE "
      "$DASO_NODE $DASO_LAUNCHER $DASO_BACKEND $TORCHELASTIC_USE_AGENT_STORE $MASTER_ADDR"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.output(), "0 3 0 2 0 2 node0 daso tcp True 127.0.0.1\n");
  EXPECT_EQ(occurrences(job.error(), "[0.1] 1 3 1 2 0 2 node0 daso tcp True 127.0.0.1\n"), 1U);
  EXPECT_EQ(occurrences(job.error(), "[1.0] 2 3 0 1 1 2 node1 daso tcp True 127.0.0.1\n"), 1U);
  EXPECT_EQ(lines_of(job.error()).size(), 2U);
}

TEST(Launch, PassesRankZeroOnByteByByte) {
  Launched job(Launched::script({}, "printf 'a\\0b\\377\\r\\nc\\rd\\n'; head -c 300000 /dev/zero"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.output(), std::string("a\0b\377\r\nc\rd\n", 10) + std::string(300000, '\0'));
  EXPECT_EQ(job.error(), "");
}

TEST(Launch, PrefixesEveryLineOnATerminal) {
  Launched job(Launched::script({"--ranks", "1,1"}, "echo hello; printf late"),
               /*on_terminal=*/true);
  EXPECT_EQ(job.wait(), 0);
  for (const char* line : {"[0.0] hello\r\n", "[1.0] hello\r\n", "[0.0] late\r\n"}) {
    EXPECT_EQ(occurrences(job.output(), line), 1U) << job.output();
  }
  EXPECT_EQ(job.error(), "");
}

TEST(Launch, GivesTheCodeOfTheRankThatFailedFirstAndItsLastLines) {
  Launched job(Launched::script(
      {"--ranks", "2,1"}, "[ $RANK = 2 ] && { seq 12 >&2; echo why >&2; exit 7; }; exec sleep 60"));
  EXPECT_EQ(job.wait(), 7);
  const std::string& error = job.error();
  const std::size_t line =
      error.find("daso: rank 2 (node1.0) ended with exit code 7; its last lines:\n");
  ASSERT_NE(line, std::string::npos) << error;
  EXPECT_NE(error.find("    why\n", line), std::string::npos) << error;
  EXPECT_EQ(occurrences(error.substr(line), "\n    "), 10U) << error;
}

TEST(Launch, TakesTheLastLinesFromStandardErrorWhereThereAreSome) {
  Launched job(Launched::script({}, "echo banner; echo why >&2; exit 7"));
  EXPECT_EQ(job.wait(), 7);
  EXPECT_EQ(job.output(), "banner\n");
  EXPECT_EQ(job.error(),
            "[0.0] why\n"
            "daso: rank 0 (node0.0) ended with exit code 7; its last lines:\n"
            "    why\n");
}

// Rank 0 has the cause and ends last: the others wait for its line, and it waits for them.
TEST(Launch, NamesTheRankWhoseErrorWasTheCauseAndRepeatsNothing) {
  const ScratchFolder folder;
  const std::string wait_for = "wait_for() { while [ ! -e \"$1\" ]; do sleep 0.01; done; }; cd " +
                               folder.path().string() + "; ";
  Launched job(Launched::script(
      {"--ranks", "1,2"},
      wait_for + "[ $RANK = 0 ] && { echo banner; echo 'daso: no such file' >&2; : >said; "
                 "wait_for 1; wait_for 2; exit 2; }; "
                 "wait_for said; echo 'daso: lost peer: no such file' >&2; : >$RANK; exit 2"));
  EXPECT_EQ(job.wait(), 2);
  EXPECT_EQ(job.output(), "banner\n");
  EXPECT_EQ(job.error(),
            "[0.0] daso: no such file\n"
            "daso: rank 0 (node0.0) failed, see its line above; the job ends with exit code 2\n");
}

TEST(Launch, ShowsOnceWhatAllRanksRefuse) {
  Launched job(Launched::script({"--ranks", "3"}, "echo 'daso: not with me' >&2; exit 2"));
  EXPECT_EQ(job.wait(), 2);
  EXPECT_EQ(occurrences(job.error(), "daso: not with me\n"), 1U) << job.error();
  EXPECT_EQ(
      occurrences(job.error(), " failed, see its line above; the job ends with exit code 2\n"), 1U)
      << job.error();
  EXPECT_EQ(lines_of(job.error()).size(), 2U) << job.error();
}

// The rank that reported it is another launcher's.
TEST(Launch, GivesTheReasonThatNoRankHereWasTheFirstToReport) {
  Launched job(Launched::script({}, "echo 'daso: lost peer: no such file' >&2; exit 2"));
  EXPECT_EQ(job.wait(), 2);
  EXPECT_EQ(job.error(), "daso: rank 0 (node0.0) ended with exit code 2: no such file\n");
}

TEST(Launch, ShowsWhatACrashSaysOfItself) {
  Launched job(
      Launched::script({}, "ulimit -c 0; echo banner; echo terminate called >&2; kill -ABRT $$"));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(
      job.error(),
      "[0.0] terminate called\n"
      "daso: rank 0 (node0.0) was ended by signal 6 (Aborted); the job ends with exit code 3; "
      "its last lines:\n"
      "    terminate called\n");
}

TEST(Launch, NamesAKilledRankInOneLine) {
  Launched job(Launched::script({"--ranks", "2,2"},
                                "[ $RANK = 3 ] && kill -9 $$; "
                                "echo 'daso: lost peer: rank 3 is gone' >&2; exit 3"));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(
      job.error(),
      "daso: rank 3 (node1.1) was ended by signal 9 (Killed); the job ends with exit code 3\n");
}

TEST(Launch, ShowsALostPeerOnceWhenNoRankIsToBlame) {
  Launched job(Launched::script({"--ranks", "3"}, "echo 'daso: lost peer: late' >&2; exit 3"));
  EXPECT_EQ(job.wait(), 3);
  EXPECT_EQ(job.error(), "daso: lost peer: late\n");
}

// An uncaught exception ends Python with 1. What is no more than the echo of another's failure, as
// in a program of ours, keeps its code.
TEST(Launch, TakesAnUncaughtPeerErrorOfPythonForALostPeer) {
  const std::string said = "echo 'daso: lost peer: PeerError: late' >&2; exit ";
  Launched lost(Launched::script({"--ranks", "2"}, said + "1"));
  EXPECT_EQ(lost.wait(), 3);
  EXPECT_EQ(lost.error(), "daso: lost peer: PeerError: late\n");
  Launched other(Launched::script({"--ranks", "2"}, said + "5"));
  EXPECT_EQ(other.wait(), 5);
  Launched echo(Launched::script({}, "echo 'daso: lost peer: diverged' >&2; exit 1"));
  EXPECT_EQ(echo.wait(), 1);
}

TEST(Launch, EndsAStoppedRankAfterAnotherFailed) {
  Launched job(Launched::script({"--ranks", "2", "--grace", "0.2"},
                                "echo pid $$; [ $RANK = 1 ] && kill -STOP $$; exit 5"));
  EXPECT_EQ(job.wait(), 5);
  for (const pid_t rank : job.process_numbers(2)) EXPECT_TRUE(gone(rank));
}

// It may be at its end for a while, with a checkpoint that is being written.
TEST(Launch, WaitsForTheRankThatHadTheCause) {
  Launched job(Launched::script({"--ranks", "2"},
                                "[ $RANK = 1 ] && { echo 'daso: lost peer: rank 0' >&2; exit 3; }; "
                                "sleep 1.5; echo 'daso: the cause' >&2; exit 2"));
  EXPECT_EQ(job.wait(), 2);
  EXPECT_NE(job.error().find("daso: the cause\n"), std::string::npos) << job.error();
}

TEST(Launch, GoesOnWithoutALostRankIfAskedTo) {
  Launched job(Launched::script({"--ranks", "2", "--keep", "1"},
                                "[ $RANK = 1 ] && kill -9 $$; sleep 1.5; echo done"));
  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.output(), "done\n");
  EXPECT_EQ(job.error(),
            "daso: rank 1 (node0.1) was ended by signal 9 (Killed); the others go on\n");
}

// Its other ranks are killed where they do not end; that is no loss from which it comes back.
TEST(Launch, EndsAJobThatSurvivesLossesAtAnErrorOfItsOwn) {
  Launched job(
      Launched::script({"--ranks", "2", "--survive", "1", "--grace", "0.2"},
                       "[ $RANK = 1 ] && exit 2; trap '' TERM; while :; do sleep 1; done"));
  EXPECT_EQ(job.wait(), 2);
  EXPECT_EQ(job.error().find("is lost"), std::string::npos) << job.error();
}

struct PassedOn {
  int signal;
  const char* script;
  int code;
};

class LaunchSignal : public ::testing::TestWithParam<PassedOn> {};

TEST_P(LaunchSignal, ReachesTheRanks) {
  const PassedOn& given = GetParam();
  Launched job(
      Launched::script({"--ranks", "2"}, std::string(given.script) + "; echo pid $$; " + kStay));
  const std::vector<pid_t> ranks = job.process_numbers(2);
  job.send(given.signal);
  EXPECT_EQ(job.wait(), given.code);
  EXPECT_EQ(occurrences(job.error(), "lost peer"), 0U);
  EXPECT_EQ(occurrences(job.error(), "was ended"), 0U) << job.error();
  EXPECT_EQ(occurrences(job.error(), "told to stop by signal"), 1U) << job.error();
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank));
}

INSTANTIATE_TEST_SUITE_P(All, LaunchSignal,
                         ::testing::Values(PassedOn{SIGTERM, "trap 'exit 0' TERM", 0},
                                           PassedOn{SIGHUP, "trap 'exit 0' TERM", 0},
                                           PassedOn{SIGINT, "trap 'exit 130' INT", 130},
                                           PassedOn{SIGTERM, ":", 143}, PassedOn{SIGINT, ":", 130},
                                           PassedOn{SIGUSR1, "trap 'exit 75' USR1", 75},
                                           PassedOn{SIGUSR1, ":", 128 + SIGUSR1},
                                           PassedOn{SIGTERM, "trap 'exit 9' TERM", 9}));

// As the & of a script has it.
TEST(Launch, PassesASignalOnThatItWasStartedToIgnore) {
  const auto before = ::signal(SIGINT, SIG_IGN);
  Launched job(Launched::script({"--ranks", "2"}, std::string("echo pid $$; ") + kStay));
  ::signal(SIGINT, before);
  job.process_numbers(2);
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT);
  EXPECT_EQ(occurrences(job.error(), "killed"), 0U) << job.error();
}

// Twice, and it can still be told to end. The ranks start no other programs: a shell that stops
// while it does is shown as asleep on a disk, not as stopped.
TEST(Launch, StopsTheRanksAtCtrlZAndGoesOnWithThem) {
  Launched job(Launched::script({"--ranks", "2"}, "echo pid $$; exec sleep 600"));
  const std::vector<pid_t> ranks = job.process_numbers(2);
  const auto all = [&](bool stopped) {
    return holds_within(kPatience, [&] {
      const auto is_so = [&](pid_t pid) { return (state_of(pid) == 'T') == stopped; };
      return is_so(job.pid()) && is_so(ranks[0]) && is_so(ranks[1]);
    });
  };
  for (int round = 0; round < 2; ++round) {
    job.send(SIGTSTP);
    EXPECT_TRUE(all(/*stopped=*/true));
    job.send(SIGCONT);
    EXPECT_TRUE(all(/*stopped=*/false));
  }
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
}

TEST(Launch, KillsARankThatIgnoresTheSignalAfterTheGraceTime) {
  Launched job(
      Launched::script({"--grace", "0.3"}, std::string("trap '' TERM; echo pid $$; ") + kStay));
  const std::vector<pid_t> ranks = job.process_numbers(1);
  const Clock::time_point start = Clock::now();
  job.send(SIGTERM);
  EXPECT_EQ(job.wait(), 128 + SIGTERM);
  EXPECT_GE(since(start), Seconds(0.3));
  EXPECT_TRUE(gone(ranks.front()));
}

TEST(Launch, KillsAtOnceAtTheSecondSignal) {
  Launched job(Launched::script({"--grace", "600"},
                                std::string("trap 'echo heard' INT; echo pid $$; ") + kStay));
  const std::vector<pid_t> ranks = job.process_numbers(1);
  job.send(SIGINT);
  job.read_lines(3);  // with the launcher's own
  const Deadline same(kSameSignal);
  EXPECT_TRUE(holds_within(kPatience, [&] { return same.passed(); }));
  job.send(SIGINT);
  EXPECT_EQ(job.wait(), 128 + SIGINT);
  EXPECT_TRUE(gone(ranks.front()));
}

// As timeout(1) sends them, to its child and then to the child's group.
TEST(Launch, TakesSignalsThatComeTogetherForOne) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "end").string();
  Launched job(Launched::script({"--ranks", "2", "--grace", "600"},
                                "trap 'echo heard; until [ -e " + file +
                                    " ]; do sleep 0.05; done; exit 75' TERM INT; echo pid $$; " +
                                    kStay));
  job.process_numbers(2);
  job.send(SIGTERM);
  job.send(SIGINT);
  job.read_lines(5);  // with the launcher's own
  std::ofstream(file).put('.');
  EXPECT_EQ(job.wait(), kExitStopped);
  EXPECT_EQ(occurrences(job.output() + job.error(), "heard"), 2U) << job.error();
  EXPECT_EQ(occurrences(job.error(), "killed"), 0U) << job.error();
}

// Its ranks end, told by its guardian, in good order or not: the job has lost a node.
TEST(Launch, IsNotWellWhenTheLauncherOfAnotherNodeIsKilled) {
  const std::string rendezvous = "127.0.0.1:" + std::to_string(free_port());
  const auto flags = [&](const char* node, const char* grace) {
    return Flags{"--ranks", "1,1", "--node", node, "--rendezvous", rendezvous, "--grace", grace};
  };
  const std::string fifo = ::testing::TempDir() + "launch_test_fifo_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(fifo.c_str(), S_IRUSR | S_IWUSR), 0);
  // Rank 0 ends as rank 1 does: stopped. The guardian's signal also reaches the sleep.
  const std::string script = "if [ $RANK = 0 ]; then read end <" + fifo +
                             "; exit 75; fi; trap 'echo end >" + fifo +
                             "; exit 75' TERM; echo pid $$; exec >/dev/null 2>&1; sleep 600 & wait";
  Launched first(Launched::script(flags("0", "1"), script));
  Launched second(Launched::script(flags("1", "15"), script));
  second.process_numbers(1);
  second.send(SIGKILL);
  EXPECT_EQ(first.wait(), kExitPeer) << first.error();
  EXPECT_EQ(occurrences(first.error(), "the launcher of node 1 has not said within 1 s"), 1U)
      << first.error();
  std::filesystem::remove(fifo);
}

TEST(Launch, LeavesNobodyBehindWhenItIsKilled) {
  // Rank 0 would end at SIGTERM, rank 1 ignores it, rank 2 is stopped.
  Launched job(Launched::script({"--ranks", "3", "--grace", "0.2"},
                                std::string("[ $RANK = 1 ] && trap '' TERM; echo pid $$; "
                                            "[ $RANK = 2 ] && kill -STOP $$; ") +
                                    kStay));
  const std::vector<pid_t> ranks = job.process_numbers(3);
  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank));
}

// As in a container whose first process collects nobody's end, which is this one here.
TEST(Launch, LeavesNoGuardianBehindWhereNobodyCollectsTheRanks) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  Launched job(
      Launched::script({"--ranks", "2", "--grace", "600"}, std::string("echo pid $$; ") + kStay));
  const std::vector<pid_t> ranks = job.process_numbers(2);
  job.send(SIGKILL);
  EXPECT_EQ(job.wait(), -SIGKILL);
  for (const pid_t rank : ranks) EXPECT_TRUE(gone(rank));
  std::vector<pid_t> guardians;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "status");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.starts_with("Name:\tdaso-guardian\n") &&
        occurrences(text, "\nPPid:\t" + std::to_string(::getpid()) + "\n") == 1) {
      guardians.push_back(std::stoi(entry.path().filename()));
    }
  }
  ASSERT_EQ(guardians.size(), 1U);
  EXPECT_TRUE(gone(guardians.front()));
  EXPECT_EQ(state_of(ranks.front()), 'Z');
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

TEST(Launch, EndsWhatARankLeavesBehind) {
  Launched job(Launched::script({}, "sleep 600 >/dev/null 2>&1 & echo pid $!"));
  EXPECT_EQ(job.wait(), 0);
  for (const pid_t left : job.process_numbers(1)) EXPECT_TRUE(gone(left));
}

TEST(Launch, FreesItsPort) {
  Launched job(Launched::script({}, "echo $MASTER_PORT"));
  EXPECT_EQ(job.wait(), 0);
  const auto port = static_cast<std::uint16_t>(std::stoi(job.output()));
  EXPECT_NO_THROW(listen_on({"127.0.0.1", port}));
}

TEST(Launch, RefusesAProgramThatDoesNotExist) {
  Launched job({"--", "no-such-program"});
  EXPECT_EQ(job.wait(), kExitConfig);
  EXPECT_EQ(job.error(), "daso: program 'no-such-program' not found; check its name and PATH\n");
}

TEST(Launch, RefusesAFileThatIsNoProgram) {
  Launched job({"--", "/etc/passwd"});
  EXPECT_EQ(job.wait(), kExitConfig);
  EXPECT_EQ(occurrences(job.error(), "'/etc/passwd' may not be executed"), 1U) << job.error();
}

TEST(Launch, SaysThatTheRendezvousDoesNotAnswer) {
  Launched job(Launched::script({"--ranks", "1,1", "--node", "1", "--limit", "0.5", "--rendezvous",
                                 "127.0.0.1:" + std::to_string(free_port())},
                                "echo never"));
  EXPECT_EQ(job.wait(), kExitPeer);
  EXPECT_EQ(occurrences(job.error(), "127.0.0.1:"), 1U) << job.error();
  EXPECT_EQ(job.output(), "");
}

// Those of the other node go on for longer than the grace time, and need the store.
TEST(Launch, HostsTheStoreForSurvivorsOfAnotherNodeWhenItsOwnRanksAreLost) {
  const std::string rendezvous = "127.0.0.1:" + std::to_string(free_port());
  const std::string file = ::testing::TempDir() + "launch_test_kept_" + std::to_string(::getpid());
  const auto flags = [&](const char* node) {
    return Flags{"--ranks",  "1,1",     "--node", node,     "--rendezvous",
                 rendezvous, "--grace", "1.5",    "--keep", "1"};
  };
  const std::string script = "[ $RANK = 0 ] && kill -9 $$; sleep 4; echo end >" + file;
  Launched second(Launched::script(flags("1"), script));
  Launched first(Launched::script(flags("0"), script));
  EXPECT_EQ(first.wait(), kExitPeer) << first.error();
  EXPECT_TRUE(std::filesystem::exists(file)) << first.error();
  EXPECT_EQ(occurrences(first.error(), "has not said"), 0U) << first.error();
  EXPECT_EQ(second.wait(), 0) << second.error();
  std::filesystem::remove(file);
}

TEST(Launch, FirstOfSeveralLaunchersHostsTheStoreUntilTheOthersAreDone) {
  const std::string rendezvous = "127.0.0.1:" + std::to_string(free_port());
  const std::string file = ::testing::TempDir() + "launch_test_" + std::to_string(::getpid());
  const auto flags = [&](const char* node) {
    return Flags{"--ranks", "1,2", "--node", node, "--rendezvous", rendezvous};
  };
  // What the second launcher's ranks leave when they end, well after the first launcher's.
  const std::string script =
      "echo $RANK $MASTER_ADDR:$MASTER_PORT; [ $RANK = 1 ] && sleep 1 && echo end >" + file +
      "; exit 0";
  Launched second(Launched::script(flags("1"), script));
  Launched first(Launched::script(flags("0"), script));
  EXPECT_EQ(first.wait(), 0) << first.error();
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(second.wait(), 0) << second.error();
  EXPECT_EQ(first.output(), "0 " + rendezvous + "\n");
  EXPECT_EQ(occurrences(second.error(), "[1.1] 2 " + rendezvous + "\n"), 1U) << second.error();
  std::filesystem::remove(file);
}

// A run of weeks may have any number of views.
TEST(Launch, KeepsNothingOfViewsThatAreLongOver) {
  Launched job({"--ranks", "1,1", "--survive", "1", "--", DASO_VIEWS_PROBE});
  EXPECT_EQ(job.wait(), 0) << job.error();
  EXPECT_EQ(occurrences(job.output(), " 0 are kept\n"), 1U) << job.output() << job.error();
}

}  // namespace
}  // namespace daso::test
