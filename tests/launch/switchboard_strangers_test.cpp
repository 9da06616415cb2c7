// SPDX-License-Identifier: Apache-2.0
// What strangers, launchers that are broken, and damage on the way do to a switchboard.
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "daso/comm/socket_address.h"
#include "daso/comm/tcp/handshake.h"
#include "daso/launch/tcp/greeting.h"
#include "launch/switchboards.h"
#include "relay.h"

namespace daso::test {
namespace {

TEST(SwitchboardStrangers, AWrongKeyGetsNowhere) {
  Board zero({0, 1});
  Board stranger({1, 1}, {.key = "another", .nodes = {{0, zero.address}}});
  zero.switchboard->know(1, stranger.address);  // nor do we believe it
  const Deadline deadline(kLimit);
  while (stranger.switchboard->trouble(0).empty() && !deadline.passed()) {
    ASSERT_TRUE(zero.hears("tick", zero.times("tick") + 1));
  }
  EXPECT_EQ(stranger.switchboard->trouble(0),
            zero.address.text() + ": it does not belong to this job");
  Board member({2, 1}, {.nodes = {{0, zero.address}}});
  EXPECT_TRUE(member.reaches(zero));
  EXPECT_EQ(zero.times(stranger.greeting()), 0);
  EXPECT_EQ(stranger.times(zero.greeting()), 0);
}

FileDescriptor dial(const Address& address) {
  const SocketAddress where(address);
  FileDescriptor socket(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), where.get(), where.bytes()), 0);
  return socket;
}

void send_all(const FileDescriptor& socket, const std::vector<std::byte>& bytes) {
  ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
}

// A launcher by hand: proves that it is node 1, and says nothing else.
FileDescriptor mute_launcher(const Address& zero) {
  FileDescriptor socket = dial(zero);
  auto handshake =
      tcp::Handshake::dial("key", {.from = 1, .to = 0, .service = tcp::Service::kLaunchers});
  while (true) {
    send_all(socket, handshake.take_outgoing());
    if (handshake.awaited() == 0) return socket;
    std::vector<std::byte> in(handshake.awaited());
    EXPECT_EQ(::recv(socket.get(), in.data(), in.size(), MSG_WAITALL), std::ssize(in));
    EXPECT_TRUE(handshake.take(in));
  }
}

void greet(const FileDescriptor& socket, const Member& member) {
  send_all(socket, tcp::framed_letter(kGreetingTag, encode({.from = member, .greeting = {}})));
}

// Until the board closes the connection.
bool is_closed_by_board(const FileDescriptor& socket) {
  const timeval limit{.tv_sec = 10, .tv_usec = 0};
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  std::array<char, 4096> bytes{};
  std::ptrdiff_t got = 1;
  while (got > 0) got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
  return got == 0 || errno == ECONNRESET;
}

TEST(SwitchboardStrangers, HearsNobodyWhoDoesNotGreet) {
  Board zero({0, 1}, {.limits = {.handshake = Seconds(0.3), .leaving = Seconds(0.3)}});
  const FileDescriptor silent = mute_launcher(zero.address);
  EXPECT_TRUE(is_closed_by_board(silent));
  const FileDescriptor talks = mute_launcher(zero.address);
  send_all(talks, tcp::framed_letter(kMessageTag, bytes_of("a")));
  EXPECT_TRUE(is_closed_by_board(talks));
  const FileDescriptor lies = mute_launcher(zero.address);
  greet(lies, {2, 1});  // it has proved to be node 1
  EXPECT_TRUE(is_closed_by_board(lies));
  const FileDescriptor long_winded = mute_launcher(zero.address);
  send_all(long_winded,
           tcp::framed_letter(kGreetingTag, std::vector<std::byte>(kMostGreetingBytes + 1)));
  EXPECT_TRUE(is_closed_by_board(long_winded));
  const FileDescriptor honest = mute_launcher(zero.address);
  greet(honest, {1, 1});
  EXPECT_TRUE(zero.hears("1.1 greets from :0 with "));
  EXPECT_EQ(zero.times("1.1 reset"), 0);
}

TEST(SwitchboardStrangers, GivesUpWhatNothingGetsThroughAndAccusesNobody) {
  Board zero({0, 1}, {.limits = {.stalled = Seconds(0.5)}});
  const FileDescriptor deaf = mute_launcher(zero.address);
  greet(deaf, {1, 1});
  ASSERT_TRUE(zero.hears("1.1 greets from :0 with "));
  zero.switchboard->know(1, {"127.0.0.1", 9});  // so that its trouble is kept
  const Deadline deadline(kLimit);
  while (zero.switchboard->trouble(1).empty() && !deadline.passed()) {
    for (int i = 0; i < 100; ++i) zero.switchboard->send(1, std::vector<std::byte>(100'000));
    ASSERT_TRUE(zero.hears("tick", zero.times("tick") + 1));
  }
  EXPECT_NE(zero.switchboard->trouble(1), "");
  EXPECT_EQ(zero.times("1.1 reset"), 0);
}

TEST(SwitchboardStrangers, AFloodOfStrangersKeepsNobodyOut) {
  Board zero({0, 1}, {.limits = {.handshake = Seconds(60)}});  // none goes by itself
  const std::size_t before = entries_of("/proc/self/fd");
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(dial(zero.address));
    if (i % 2 == 0) ::send(strangers.back().get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
    if (i % 3 == 0) strangers.back().close();
  }
  Board one({1, 1}, {.nodes = {{0, zero.address}}});
  EXPECT_TRUE(one.reaches(zero));
  EXPECT_TRUE(zero.reaches(one));
  // Ours: 64 strangers at most, and a few of the new board.
  EXPECT_LE(entries_of("/proc/self/fd"), before + 200 + 64 + 10);
}

TEST(SwitchboardStrangers, DamageEndsAConnectionThatIsThenMadeAnew) {
  Board zero({0, 1});
  Relay relay(zero.address);
  Board one({1, 1}, {.nodes = {{0, relay.address()}}});
  ASSERT_TRUE(one.hears_greeting_of(zero));
  ASSERT_TRUE(one.reaches(zero));
  const int greetings = zero.times(one.greeting());
  relay.damage_next();
  one.switchboard->send(0, bytes_of("a message that is damaged"));
  ASSERT_TRUE(zero.hears_greeting_of(one, greetings + 1));
  EXPECT_TRUE(one.reaches(zero));
  EXPECT_EQ(zero.times("1.1 says a message that is damaged"), 0);
  // Nobody has died of it.
  EXPECT_EQ(zero.times("1.1 reset"), 0);
  EXPECT_EQ(one.times("0.1 reset"), 0);
}

}  // namespace
}  // namespace daso::test
