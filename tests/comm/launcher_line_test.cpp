// SPDX-License-Identifier: Apache-2.0
// A rank's line, with the test as its launcher.
#include "daso/comm/launcher_line.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <future>
#include <string>

#include "daso/base/error.h"
#include "daso/comm/alarm.h"
#include "daso/comm/operation.h"
#include "daso/comm/store.h"
#include "daso/comm/worlds.h"

namespace daso {
namespace {

constexpr Seconds kLimit{20};

// The launcher's end.
class Launcher {
 public:
  Launcher() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
    own_ = FileDescriptor(ends[0]);
    line = std::make_shared<LauncherLine>(FileDescriptor(ends[1]));
  }

  void say(const std::string& text) {
    ASSERT_EQ(std::ssize(text) + 1, ::send(own_.get(), (text + "\n").data(), text.size() + 1, 0));
  }
  // The next line that is no beat.
  std::string hear() {
    for (;;) {
      std::string text;
      for (char byte = 0; ::recv(own_.get(), &byte, 1, 0) == 1 && byte != '\n';) text += byte;
      if (text != "beat") return text;
    }
  }
  void hang_up() { own_.close(); }

  std::shared_ptr<LauncherLine> line;

 private:
  FileDescriptor own_;
};

const NextView kView{
    .number = 3,
    .first_exchange = 7,
    .nodes = {{.id = 0, .ranks = 2, .first_rank = 0}, {.id = 2, .ranks = 1, .first_rank = 4}},
    .joined = {2},
    .left = {1},
    .store = {"10.0.0.1", 4000}};

TEST(LauncherLine, TellsARankItsSeatInAView) {
  const NextView view = view_in(text_of(kView));
  const WorldOptions options = options_in(view, {}, /*rank_id=*/4, nullptr);
  EXPECT_EQ(2, options.place.rank);
  EXPECT_EQ(3, options.place.size);
  EXPECT_EQ("10.0.0.1:4000", options.place.rendezvous->text());
  EXPECT_EQ((std::vector<int>{0, 0, 2}), options.node_of_rank);
  EXPECT_EQ((std::vector<int>{0, 2}), options.view->node_ids);
  EXPECT_EQ((std::vector<int>{0, 1, 4}), options.view->rank_ids);
  EXPECT_EQ(7, options.view->first_exchange);
  EXPECT_EQ(std::vector<int>{2}, options.view->joined);
  EXPECT_EQ(std::vector<int>{1}, options.view->left);
  EXPECT_THROW(options_in(view, {}, /*rank_id=*/2, nullptr), ConfigError);
}

TEST(LauncherLine, AsksAndIsAnswered) {
  Launcher launcher;
  auto next = std::async([&] { return launcher.line->next_view(kLimit); });
  EXPECT_EQ("1 next 0", launcher.hear());
  launcher.say("1 view " + text_of(kView));
  EXPECT_EQ(3, next.get().number);
  auto start = std::async([&] { return launcher.line->start(7); });
  EXPECT_EQ("2 start 7", launcher.hear());
  launcher.say("2 go");
  EXPECT_EQ(Start::kGoes, start.get());
  launcher.line->prepared(7);
  EXPECT_EQ("prepared 7", launcher.hear());
  auto outcome = std::async([&] { return launcher.line->committed(7, kLimit); });
  EXPECT_EQ("3 outcome 7", launcher.hear());
  launcher.say("3 abandon");
  EXPECT_FALSE(outcome.get());
}

TEST(LauncherLine, HearsWhereJoinersWaitUntilTheirPlacesAreTaken) {
  Launcher launcher;
  const auto start = [&](int number, const std::string& answer) {
    auto started = std::async([&] { return launcher.line->start(number); });
    EXPECT_EQ(fmt::format("{0} start {0}", number), launcher.hear());
    launcher.say(fmt::format("{} {}", number, answer));
    return started.get();
  };
  EXPECT_EQ(Start::kGoes, start(1, "go a:1/5"));
  EXPECT_TRUE(launcher.line->joiners_wait());
  EXPECT_EQ(Start::kGoes, start(2, "go a:1/5"));
  EXPECT_EQ(std::vector<std::string>{"a:1/5"}, launcher.line->take_joiners());
  EXPECT_FALSE(launcher.line->joiners_wait());
  EXPECT_EQ(Start::kGoes, start(3, "go a:1/5 b:2/6"));
  EXPECT_EQ(std::vector<std::string>{"b:2/6"}, launcher.line->take_joiners());
  EXPECT_EQ(Start::kEnded, start(4, "ended"));
  EXPECT_FALSE(launcher.line->joiners_wait());
  launcher.line->copies_dropped();
  EXPECT_EQ(Start::kGoes, start(5, "go a:1/5"));
  EXPECT_EQ(std::vector<std::string>{"a:1/5"}, launcher.line->take_joiners());
}

TEST(LauncherLine, TellsWhatACopyNeeds) {
  Launcher launcher;
  EXPECT_FALSE(launcher.line->joins());
  launcher.line->gives_copies(true);
  launcher.line->gives_copies(false);
  launcher.line->ask_copy("a:1/5");
  launcher.line->caught_up();
  for (const char* said : {"gives 1", "gives 0", "copy a:1/5", "caught-up"}) {
    EXPECT_EQ(said, launcher.hear());
  }
}

TEST(LauncherLine, HearsThatItsNodeHasLeft) {
  Launcher launcher;
  auto next = std::async([&] { return launcher.line->next_view(kLimit); });
  EXPECT_EQ("1 next 0", launcher.hear());
  launcher.say("1 left");
  EXPECT_THROW(next.get(), NodeLeft);
}

TEST(LauncherLine, DropsAnAnswerThatComesTooLate) {
  Launcher launcher;
  EXPECT_THROW(launcher.line->committed(7, Seconds(0.01)), PeerError);
  auto start = std::async([&] { return launcher.line->start(8); });
  EXPECT_EQ("1 outcome 7", launcher.hear());
  EXPECT_EQ("2 start 8", launcher.hear());
  launcher.say("1 commit");
  launcher.say("2 ended");
  EXPECT_EQ(Start::kEnded, start.get());
}

TEST(LauncherLine, HearsThatTheViewHasEnded) {
  Launcher launcher;
  auto next = std::async([&] { return launcher.line->next_view(kLimit); });
  launcher.hear();
  launcher.say("1 view " + text_of(kView));
  next.get();
  std::promise<void> ended;
  launcher.line->when_ended([&] { ended.set_value(); });
  launcher.say("ended 2");  // of a view before: nothing new
  EXPECT_FALSE(launcher.line->ended());
  launcher.say("ended 3");
  ASSERT_EQ(std::future_status::ready, ended.get_future().wait_for(kLimit));
  EXPECT_TRUE(launcher.line->ended());
  bool at_once = false;
  launcher.line->when_ended([&] { at_once = true; });
  EXPECT_TRUE(at_once);
}

// The machine that has the store is lost, so that launchers end the view while its ranks meet.
TEST(LauncherLine, AViewThatEndsIsNotJoinedAnyMore) {
  Launcher launcher;
  const FileDescriptor mute = listen_on({"127.0.0.1", 0});
  NextView view = kView;
  view.store = bound_address(mute);
  auto next = std::async([&] { return launcher.line->next_view(kLimit); });
  launcher.hear();
  launcher.say("1 view " + text_of(view));
  view = next.get();
  auto joined = std::async([&] {
    WorldOptions options;
    options.backend = "tcp";
    options.limit = 10 * kLimit;
    World::join(options_in(view, options, /*rank_id=*/4, launcher.line));
  });
  const FileDescriptor caller(::accept(mute.get(), nullptr, nullptr));  // it waits for an answer
  launcher.say("ended 3");
  EXPECT_EQ(std::future_status::ready, joined.wait_for(kLimit));
  EXPECT_THROW(joined.get(), PeerError);
}

// Views that follow each other, by script.
class Listed final : public ViewSource {
 public:
  explicit Listed(std::vector<NextView> views) : views_(std::move(views)) {}

  NextView next_view(Seconds) override { return views_.at(next_++); }
  void trouble(const std::string& what) override { troubles.push_back(what); }
  Start start(std::int64_t) override { return Start::kGoes; }
  void prepared(std::int64_t) override {}
  bool committed(std::int64_t, Seconds) override { return true; }
  bool ended() override { return false; }
  void when_ended(std::function<void()>) override {}

  std::vector<std::string> troubles;

 private:
  const std::vector<NextView> views_;
  std::size_t next_ = 0;
};

// Its node's other ranks may wait for nodes that wait for this one, until a limit.
TEST(Worlds, TellTheLauncherOfAnAlarmAtOnce) {
  const auto source = std::make_shared<Listed>(
      std::vector<NextView>{{.number = 1, .nodes = {{.id = 0, .ranks = 1, .first_rank = 0}}}});
  WorldOptions options;
  options.backend = "tcp";
  options.place.rank = 0;
  Worlds worlds(options);
  worlds.follow(source);
  worlds.next().guard().alarm->raise({.text = "the store says what no rank has written"});
  EXPECT_EQ(std::vector<std::string>{"the store says what no rank has written"}, source->troubles);
}

TEST(Worlds, TakeAMeetingThatGoesWrongInALaterViewForTrouble) {
  const Store root = Store::host_for_members(listen_on({"127.0.0.1", 0}), "token");
  // So it seems to rank 0 that somebody else is rank 0.
  root.under(part_of_view(2)).add("claim/0", 1);
  const NextView::Node own{.id = 0, .ranks = 1, .first_rank = 0};
  const NextView::Node other{.id = 1, .ranks = 1, .first_rank = 1};
  const auto source = std::make_shared<Listed>(
      std::vector<NextView>{{.number = 1, .nodes = {own}},
                            {.number = 2, .nodes = {own, other}, .store = root.address()},
                            {.number = 3, .nodes = {own}}});
  WorldOptions options;
  options.backend = "tcp";
  options.limit = kLimit;
  options.place.rank = 0;
  options.place.job_token = "token";
  Worlds worlds(options);
  worlds.follow(source);
  worlds.next();
  worlds.next();
  EXPECT_EQ(3, worlds.view().number);
  ASSERT_EQ(2U, source->troubles.size());  // the first: that another world was asked for
  EXPECT_NE(source->troubles[1].find("rank 0 is taken"), std::string::npos) << source->troubles[1];
}

TEST(LauncherLine, NoticesThatTheLauncherIsGone) {
  Launcher launcher;
  auto next = std::async([&] { return launcher.line->next_view(kLimit); });
  launcher.hear();
  launcher.hang_up();
  EXPECT_THROW(next.get(), PeerError);
  EXPECT_TRUE(launcher.line->ended());
}

}  // namespace
}  // namespace daso
