// SPDX-License-Identifier: Apache-2.0
// Switchboards that talk over loopback; who comes and goes.
#include "daso/launch/switchboard.h"

#include <future>

#include "daso/membership/message.h"
#include "launch/switchboards.h"

namespace daso::test {
namespace {

TEST(Switchboard, CarriesMessagesBothWays) {
  Board zero({0, 7});
  Board one({1, 8}, {.nodes = {{0, zero.address}}});
  EXPECT_TRUE(zero.hears_greeting_of(one));  // which it does not know yet
  EXPECT_TRUE(one.hears_greeting_of(zero));
  one.switchboard->send(0, bytes_of("a"));
  zero.switchboard->send(1, bytes_of(""));
  EXPECT_TRUE(zero.hears("1.8 says a"));
  EXPECT_TRUE(one.hears("0.7 says "));
  const std::string large(membership::kMostMessageBytes, 'x');
  one.switchboard->send(0, bytes_of(large + "x"));  // too large, and dropped
  one.switchboard->send(0, bytes_of(large));
  EXPECT_TRUE(zero.hears("1.8 says " + large));
  EXPECT_EQ(zero.times("1.8 says " + large + "x"), 0);
  EXPECT_EQ(zero.switchboard->trouble(1), "");
}

TEST(Switchboard, ThreeThatCallEachOtherAllTalk) {
  std::vector<std::unique_ptr<Board>> boards;
  for (NodeId node = 0; node < 3; ++node)
    boards.push_back(std::make_unique<Board>(Member{node, 1}));
  for (const auto& board : boards) {  // all at once, also those who have been called
    for (NodeId node = 0; node < 3; ++node) board->switchboard->know(node, boards[node]->address);
  }
  for (const auto& from : boards) {
    for (const auto& to : boards) {
      EXPECT_TRUE(from == to || from->reaches(*to));
    }
  }
  for (const auto& board : boards) {
    for (const char* other : {"0.1 reset", "1.1 reset", "2.1 reset"}) {
      EXPECT_EQ(board->times(other), 0) << other;  // two connections are no quarrel
    }
  }
}

TEST(Switchboard, SpeaksIPv6) {
  Board zero({0, 1}, {.host = "::1"});
  Board one({1, 1}, {.host = "::1", .nodes = {{0, zero.address}}});
  EXPECT_TRUE(one.reaches(zero));
  EXPECT_TRUE(zero.reaches(one));
}

TEST(Switchboard, RunsItsOwnersWorkOnItsThread) {
  Board zero({0, 1});
  std::promise<std::thread::id> first;
  std::promise<std::thread::id> second;
  zero.switchboard->post([&] { first.set_value(std::this_thread::get_id()); });
  zero.switchboard->post([&] { second.set_value(std::this_thread::get_id()); });
  const auto thread = first.get_future().get();
  EXPECT_EQ(thread, second.get_future().get());
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_TRUE(zero.hears("tick", 3));
}

TEST(Switchboard, SaysWhyThereIsNoConnection) {
  Board zero({0, 1});
  const Address nowhere = bound_address(listen_on({"127.0.0.1", 0}));  // closed again
  zero.switchboard->know(1, nowhere);
  const Deadline deadline(kLimit);
  while (zero.switchboard->trouble(1).empty() && !deadline.passed()) {
    ASSERT_TRUE(zero.hears("tick", zero.times("tick") + 1));
  }
  EXPECT_EQ(zero.switchboard->trouble(1), nowhere.text() + ": Connection refused");
  zero.switchboard->forget(1);
  ASSERT_TRUE(zero.hears("tick", zero.times("tick") + 2));
  EXPECT_EQ(zero.switchboard->trouble(1), "");
}

// --- who comes and goes ---

TEST(Switchboard, TellsADeathFromAGoodbye) {
  Board zero({0, 1});
  {
    Board one({1, 5}, {.nodes = {{0, zero.address}}});
    ASSERT_TRUE(one.reaches(zero));
  }
  Board two({2, 6}, {.nodes = {{0, zero.address}}});
  ASSERT_TRUE(two.reaches(zero));
  two.switchboard->abort();
  EXPECT_TRUE(zero.hears("2.6 reset"));
  EXPECT_EQ(zero.times("1.5 reset"), 0);
  const Deadline deadline(kLimit);
  while (zero.switchboard->trouble(1).empty() && !deadline.passed()) {
    ASSERT_TRUE(zero.hears("tick", zero.times("tick") + 1));
  }
  EXPECT_NE(zero.switchboard->trouble(1), "");
}

TEST(Switchboard, HearsARestartedNodeAtItsNewAddress) {
  Board zero({0, 1});
  auto one = std::make_unique<Board>(Member{1, 1}, Board::Setup{.nodes = {{0, zero.address}}});
  ASSERT_TRUE(one->reaches(zero));
  one->switchboard->abort();
  ASSERT_TRUE(zero.hears("1.1 reset"));
  one = std::make_unique<Board>(Member{1, 2}, Board::Setup{.nodes = {{0, zero.address}}});
  ASSERT_TRUE(zero.hears_greeting_of(*one));
  EXPECT_TRUE(one->reaches(zero));
  EXPECT_TRUE(zero.reaches(*one));
  EXPECT_EQ(zero.times("1.2 reset"), 0);
}

TEST(Switchboard, ASuccessorEndsTheLifeBefore) {
  Board zero({0, 1});
  Board before({1, 1}, {.nodes = {{0, zero.address}}});
  ASSERT_TRUE(before.reaches(zero));
  Board after({1, 2}, {.nodes = {{0, zero.address}}});
  EXPECT_TRUE(zero.hears("1.1 reset"));
  EXPECT_TRUE(zero.reaches(after));
  const int said = zero.times(before.greeting());
  before.switchboard->send(0, bytes_of("from beyond"));
  // It calls again, is told to go each time, and is not heard.
  EXPECT_TRUE(before.hears_greeting_of(zero, before.times(zero.greeting()) + 2));
  EXPECT_EQ(zero.times("1.1 says from beyond"), 0);
  EXPECT_EQ(zero.times(before.greeting()), said);
  EXPECT_EQ(before.times("0.1 reset"), 0);
}

TEST(Switchboard, DropsWhatIsSaidWhileANodeIsAway) {
  Board zero({0, 1});
  FileDescriptor listening = listen_on({"127.0.0.1", 0});
  const Address place = bound_address(listening);
  zero.switchboard->know(1, place);
  for (int i = 0; i < 1000; ++i) zero.switchboard->send(1, bytes_of("old"));
  Board one({1, 1}, {.nodes = {{0, zero.address}}});
  ASSERT_TRUE(zero.reaches(one));
  EXPECT_EQ(one.times("0.1 says old"), 0);
}

TEST(Switchboard, DropsTheOldestForANodeThatDoesNotRead) {
  Board zero({0, 1}, {.limits = {.queued_bytes = 100'000}});
  Board one({1, 1}, {.nodes = {{0, zero.address}}});
  ASSERT_TRUE(zero.reaches(one));
  std::promise<void> open;
  one.switchboard->post([gate = open.get_future().share()] { gate.wait_for(kLimit); });
  const std::string body(10'000, 'x');
  const int count = 4000;  // 40 MB: more than sockets hold
  for (int i = 0; i < count; ++i) {
    zero.switchboard->send(1, bytes_of(std::to_string(i) + body));
  }
  zero.switchboard->send(1, bytes_of("last"));
  std::promise<void> sent;
  zero.switchboard->post([&] { sent.set_value(); });
  ASSERT_EQ(sent.get_future().wait_for(kLimit), std::future_status::ready);
  open.set_value();
  EXPECT_TRUE(one.hears("0.1 says last"));
  EXPECT_EQ(one.times("0.1 says 0" + body), 1);
  EXPECT_EQ(one.times("0.1 says " + std::to_string(count - 20) + body), 0);
  EXPECT_EQ(one.times("0.1 says " + std::to_string(count - 1) + body), 1);
}

// --- what is left ---

TEST(Switchboard, LeavesNothingBehind) {
  const auto once = [](bool in_order) {
    Board zero({0, 1});
    Board one({1, 1}, {.nodes = {{0, zero.address}}});
    zero.switchboard->know(1, one.address);
    EXPECT_TRUE(one.reaches(zero));
    if (!in_order) one.switchboard->abort();
  };
  once(true);
  const std::size_t descriptors = entries_of("/proc/self/fd");
  const std::size_t threads = entries_of("/proc/self/task");
  for (int i = 0; i < 50; ++i) once(i % 2 == 0);
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
}

TEST(Switchboard, KeepsNoDescriptorOfAHundredConnections) {
  Board zero({0, 1});
  Board other({9, 1}, {.nodes = {{0, zero.address}}});
  ASSERT_TRUE(other.reaches(zero));
  const std::size_t descriptors = entries_of("/proc/self/fd");
  for (std::uint64_t i = 1; i <= 100; ++i) {
    Board one({1, i}, {.nodes = {{0, zero.address}}});
    ASSERT_TRUE(one.hears_greeting_of(zero));
    ASSERT_TRUE(zero.hears_greeting_of(one));
    if (i % 2 == 0) one.switchboard->abort();
  }
  const Deadline deadline(kLimit);
  while (entries_of("/proc/self/fd") != descriptors && !deadline.passed()) {
    ASSERT_TRUE(zero.hears("tick", zero.times("tick") + 1));  // it calls node 1 in vain meanwhile
  }
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
}

}  // namespace
}  // namespace daso::test
