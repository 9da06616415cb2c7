// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/top_view.h"
#include "daso/base/error.h"
#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/base/text.h"
#include "scratch_folder.h"
#include "verify/captured_output.h"

namespace daso::cli {
namespace {

using namespace verify;

using nlohmann::json;

constexpr double kNow = 1'800'000'000;

// Rank r of so many works 50 + r ms; two ranks a node.
json ranks(int count) {
  json list = json::array();
  for (int rank = 0; rank < count; ++rank) {
    list.push_back({{"rank", rank},
                    {"node", rank / 2},
                    {"host", "host" + std::to_string(rank / 2)},
                    {"worked_seconds", 0.050 + 0.001 * rank}});
  }
  return list;
}

json running() {
  return {{"state", "running"},
          {"updated", kNow - 1},
          {"strategy", "daso"},
          {"model", "resnet20"},
          {"data", "cifar10"},
          {"epoch", 2},
          {"epochs", 10},
          {"step", 250},
          {"steps", 1000},
          {"phase", "cycling"},
          {"skip", 4},
          {"wait", 1},
          {"in_flight_for", 2},
          {"train_loss", 0.42131},
          {"test_accuracy", 0.875},
          {"samples_per_second", 1234.4},
          {"wait_share", 0.032},
          {"seconds", 125},
          {"seconds_left", 375},
          {"late", {{"rank", 3}, {"node", 1}, {"step", 248}, {"seconds", 0.2}}},
          {"ranks", ranks(4)}};
}

std::string view_of(const json& status, ViewSize size = {}) { return top_view(status, kNow, size); }

json with(json status, const char* field, json value) {
  status[field] = std::move(value);
  return status;
}

bool shows(const std::string& view, const std::string& text) {
  return view.find(text) != std::string::npos;
}

std::vector<std::string> lines_of(const std::string& view) {
  std::vector<std::string> lines = split(view, '\n');
  EXPECT_TRUE(view.ends_with('\n')) << view;
  if (!lines.empty()) lines.pop_back();
  return lines;
}

TEST(TopView, ShowsTheWholeRun) {
  json status = running();
  status["ranks"][3]["worked_seconds"] = 0.1;
  EXPECT_EQ(view_of(status),
            "running for 2:05 min | strategy daso, resnet20 on cifar10\n"
            "epoch 3 of 10 [######...................]  25 %  step 250 of 1000  6:15 min left\n"
            "phase     cycling, exchange every 4 steps, merged after 1; in flight for 2\n"
            "training  loss 0.4213   accuracy 0.8750   1234 samples/s   waiting 3.2 %\n"
            "late      rank 3 on node 1 by 200 ms at step 248\n"
            "\n"
            "node  rank  host      worked  in each step, without waiting\n"
            "   0     0  host0   50.00 ms  ##################.................\n"
            "         1  host0   51.00 ms  ##################.................\n"
            "   1     2  host1   52.00 ms  ##################.................\n"
            "         3  host1  100.00 ms  ################################### 1.9 x median\n");
}

TEST(TopView, NamesTheNodesOfARunThatOutlivesThem) {
  const json status =
      with(running(), "view", {{"number", 3}, {"nodes", {0, 2}}, {"of", 3}, {"changes", 2}});
  EXPECT_TRUE(shows(view_of(status), "members   view 3: 2 of 3 nodes: 0, 2\n"));
  EXPECT_FALSE(shows(view_of(running()), "members"));
  for (const json& odd : {json(), json(7), json::object(), json{{"nodes", 3}}}) {
    EXPECT_FALSE(shows(view_of(with(running(), "view", odd)), "members")) << odd;
  }
}

TEST(TopView, StaysWithinEverySize) {
  json status = with(running(), "ranks", ranks(100));
  status["data"] = std::string(300, 'd') + "\xc3\xbc";
  status["ranks"][7]["host"] = std::string(100, 'h');
  for (const int width : {0, 1, 10, 40, 79, 80, 81, 200}) {
    for (int height = 0; height < 120; ++height) {
      const std::vector<std::string> lines = lines_of(view_of(status, {width, height}));
      EXPECT_LE(lines.size(), static_cast<std::size_t>(std::max(1, height)));
      for (const std::string& line : lines) {
        EXPECT_LE(line.size(), static_cast<std::size_t>(std::max(1, width)) + 1);  // u umlaut: 2
      }
    }
  }
}

TEST(TopView, HasRoomForEightRanksOnTheUsualTerminal) {
  const json status = with(running(), "ranks", ranks(8));
  const std::vector<std::string> lines = lines_of(view_of(status, {.width = 80, .height = 15}));
  EXPECT_EQ(lines.size(), 15U);
  EXPECT_TRUE(lines.back().starts_with("         7  host3")) << lines.back();
}

TEST(TopView, LeavesOutTheFastestRanksAndSaysHowMany) {
  json status = with(running(), "ranks", ranks(10));
  status["ranks"][0]["worked_seconds"] = 0.3;
  const std::vector<std::string> lines = lines_of(view_of(status, {.width = 80, .height = 11}));
  ASSERT_EQ(lines.size(), 11U);
  EXPECT_TRUE(lines[7].starts_with("   0     0  host0  300.00 ms")) << lines[7];
  EXPECT_TRUE(lines[8].starts_with("   4     8  host4   58.00 ms")) << lines[8];
  EXPECT_TRUE(lines[9].starts_with("         9  host4   59.00 ms")) << lines[9];
  EXPECT_EQ(lines[10], "7 of 10 ranks are not shown; none is slower");
}

TEST(TopView, PointsOnlyAtRanksFarAboveTheMedian) {
  EXPECT_FALSE(shows(view_of(running()), "median"));
  json status = running();
  status["ranks"][1]["worked_seconds"] = 0.0515 * 1.19;  // of 50, 52, 53 and this: median 52.5
  EXPECT_FALSE(shows(view_of(status), "median"));
  status["ranks"][1]["worked_seconds"] = 0.0525 * 2;
  EXPECT_TRUE(shows(view_of(status), " 2.0 x median"));
}

TEST(TopView, SaysWhenARunHasBeenSilent) {
  EXPECT_FALSE(shows(view_of(with(running(), "updated", kNow - 10)), "no news"));
  EXPECT_FALSE(shows(view_of(with(running(), "updated", kNow + 30)), "no news"));
  const std::string view = view_of(with(running(), "updated", kNow - 37));
  EXPECT_TRUE(view.starts_with("no news for 37 s: the run may have been killed | strategy daso"))
      << view;
}

TEST(TopView, DoesNotExpectNewsOfARunThatIsOver) {
  json status = with(running(), "updated", kNow - 1000);
  for (const std::string state : {"finished", "stopped"}) {
    status["state"] = state;
    EXPECT_TRUE(is_over(status));
    const std::string view = view_of(status);
    EXPECT_TRUE(view.starts_with(state + " after 2:05 min | ")) << view;
    EXPECT_FALSE(shows(view, "left"));
  }
  EXPECT_FALSE(is_over(running()));
}

TEST(TopView, TellsTheExchangesOfEveryPhase) {
  EXPECT_TRUE(
      shows(view_of(with(running(), "in_flight_for", 0)), "merged after 1; none in flight"));
  EXPECT_TRUE(shows(view_of(with(running(), "wait", 0)), "every 4 steps, blocking;"));
  EXPECT_TRUE(shows(view_of(with(running(), "skip", 1)), "exchange every step, merged after 1"));
  const json warmup = with(with(running(), "skip", 0), "phase", "warmup");
  EXPECT_TRUE(shows(view_of(warmup), "phase     warmup, no exchange in the background\n"));
}

TEST(TopView, TakesWhatIsNotKnown) {
  json status = running();
  status["test_accuracy"] = nullptr;
  status["late"] = nullptr;
  status["train_loss"] = nullptr;  // what JSON has for a loss that is not a number
  status["ranks"][2]["worked_seconds"] = nullptr;
  const std::string view = view_of(status);
  EXPECT_TRUE(shows(view, "loss -   accuracy -   1234 samples/s"));
  EXPECT_TRUE(shows(view, "late      nobody\n"));
  EXPECT_TRUE(shows(view, "   1     2  host1          -\n"));
  EXPECT_TRUE(shows(view_of(with(running(), "late", {{"seconds", 0.001}})), "late      nobody\n"));
}

TEST(TopView, TakesEveryFieldAbsentNullOrOfAnotherKind) {
  const json whole = running();
  EXPECT_NO_THROW(view_of(json::object()));
  for (const auto& [field, value] : whole.items()) {
    for (const json& other :
         {json(), json(-1e300), json("x"), json::array({1, "x"}), json::object()}) {
      EXPECT_NO_THROW(view_of(with(whole, field.c_str(), other))) << field << " " << other;
    }
    json without = whole;
    without.erase(field);
    EXPECT_NO_THROW(view_of(without)) << field;
  }
}

TEST(TopView, GivesTheTerminalNoCommands) {
  json status = with(running(), "model", "a\033[2Jb\nc\x7f");
  status["ranks"][0]["host"] = "h\033c";
  const std::string view = view_of(status);
  EXPECT_TRUE(shows(view, "a?[2Jb?c?"));
  EXPECT_EQ(view.find('\033'), std::string::npos);
  EXPECT_EQ(lines_of(view).size(), lines_of(view_of(running())).size());
}

class Top : public testing::Test {
 protected:
  void write(const json& status) const {
    std::ofstream(folder_ / "part") << status.dump() << "\n";
    std::filesystem::rename(folder_ / "part", folder_ / "status.json");
  }
  int top(std::vector<std::string> flags = {}) const {
    CLI::App app;
    const Command command = add_top(app);
    flags.insert(flags.begin(), {"top", folder_.string()});
    std::reverse(flags.begin(), flags.end());
    app.parse(flags);
    return command.act({});
  }

  const test::ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

TEST_F(Top, PrintsOnceWhereThereIsNoTerminal) {
  write(with(running(), "ranks", ranks(64)));
  const CapturedOutput output;
  EXPECT_EQ(top(), kExitOk);
  const std::string text = output.text();
  EXPECT_TRUE(shows(text, "phase     cycling"));
  EXPECT_TRUE(shows(text, "\n        63  host31"));  // a file has room for all
  EXPECT_EQ(text.find('\033'), std::string::npos);
}

TEST_F(Top, PrintsTheStatusItself) {
  write(running());
  const CapturedOutput output;
  EXPECT_EQ(top({"--json"}), kExitOk);
  EXPECT_EQ(output.text(), running().dump() + "\n");
}

TEST_F(Top, RefusesWhatIsNoRun) {
  const auto refusal = [&] {
    try {
      top();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_TRUE(shows(refusal(), (folder_ / "status.json").string() + " is not there")) << refusal();
  std::ofstream(folder_ / "status.json") << "[1, 2";
  EXPECT_TRUE(shows(refusal(), "is not a JSON object")) << refusal();
  std::filesystem::remove_all(folder_);
  EXPECT_TRUE(shows(refusal(), folder_.string() + " is not a folder")) << refusal();
}

// A process on a terminal of its own. Killed and reaped when the object dies.
class OnTerminal {
 public:
  explicit OnTerminal(const std::function<int()>& act) {
    const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    int terminal = -1;
    pid_ = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (pid_ == 0) {
      const int code = act();
      std::fflush(stdout);
      ::_exit(code);
    }
    terminal_ = FileDescriptor(terminal);
  }
  OnTerminal(const OnTerminal&) = delete;
  OnTerminal& operator=(const OnTerminal&) = delete;
  ~OnTerminal() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }

  void press(char key) const { ASSERT_EQ(::write(terminal_.get(), &key, 1), 1); }
  // Reads until the text has come; false if the process ends or the limit passes first.
  bool comes(const std::string& text, Seconds limit = Seconds(20)) {
    const Deadline deadline(limit);
    while (!shows(seen_, text)) {
      pollfd ready{.fd = terminal_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, static_cast<int>(whole_milliseconds(deadline.left()).count())) <= 0)
        return false;
      std::array<char, 4096> part{};
      const ssize_t bytes = ::read(terminal_.get(), part.data(), part.size());
      if (bytes <= 0) return false;
      seen_.append(part.data(), static_cast<std::size_t>(bytes));
    }
    return true;
  }
  // What the terminal does with keys: flags of termios.
  tcflag_t key_flags() const {
    termios now{};
    EXPECT_EQ(::tcgetattr(terminal_.get(), &now), 0);
    return now.c_lflag;
  }
  const std::string& seen() const { return seen_; }
  // The exit code; 128 + the signal as a shell would say.
  int wait() {
    comes("what never comes");  // until it has ended
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = 0;
  FileDescriptor terminal_;
  std::string seen_;
};

constexpr const char* kSecondScreen = "\033[?1049h\033[?25l";
constexpr const char* kFirstScreen = "\033[?25h\033[?1049l";
constexpr char kControlC = 3;

TEST_F(Top, EndsWithQOrControlCAndRestoresTheTerminal) {
  write(running());
  for (const char key : {'q', kControlC}) {
    OnTerminal process([&] { return top(); });
    ASSERT_TRUE(process.comes("host1")) << process.seen();
    EXPECT_TRUE(process.seen().starts_with(kSecondScreen));
    EXPECT_EQ(process.key_flags() & (ECHO | ICANON), 0U);
    process.press(key);
    EXPECT_EQ(process.wait(), kExitOk);
    EXPECT_TRUE(process.seen().ends_with(kFirstScreen)) << process.seen();
    EXPECT_EQ(process.key_flags() & (ECHO | ICANON), tcflag_t{ECHO | ICANON});
  }
}

TEST_F(Top, FollowsTheRunToItsEnd) {
  write(running());
  OnTerminal process([&] { return top(); });
  ASSERT_TRUE(process.comes("step 250 of 1000"));
  process.press('x');  // means nothing
  write(with(running(), "step", 260));
  ASSERT_TRUE(process.comes("step 260 of 1000"));
  write(with(running(), "state", "finished"));
  EXPECT_EQ(process.wait(), kExitOk);
  const std::string& seen = process.seen();
  const std::size_t restored = seen.find(kFirstScreen);
  ASSERT_NE(restored, std::string::npos);
  EXPECT_TRUE(shows(seen.substr(restored), "finished after 2:05 min"));
}

TEST_F(Top, PrintsOnceOnATerminalIfAsked) {
  write(with(running(), "ranks", ranks(100)));
  OnTerminal process([&] { return top({"--once"}); });
  EXPECT_EQ(process.wait(), kExitOk);
  EXPECT_EQ(process.seen().find('\033'), std::string::npos);
  EXPECT_EQ(lines_of(process.seen()).size(), 23U);  // and one for the shell
}

}  // namespace
}  // namespace daso::cli
