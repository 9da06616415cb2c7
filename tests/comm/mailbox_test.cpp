// SPDX-License-Identifier: Apache-2.0
// Mailboxes that write to each other over loopback, and what strangers do to them.
#include <sys/socket.h>

#include <filesystem>
#include <thread>

#include "comm/mailboxes.h"
#include "daso/comm/socket_address.h"
#include "daso/comm/tcp/handshake.h"

namespace daso::tcp {
namespace {

TEST(Mailbox, LettersArriveWhicheverIsAskedForFirst) {
  Rank zero(0);
  Rank one(1);
  connect(zero, one);
  // Lengths on both sides of what is read and summed at a time.
  const std::vector<std::size_t> lengths = {0,         1,         100,       (256 << 10) - 1,
                                            256 << 10, 1'000'003, (3 << 20), 0};
  for (const bool asked_first : {true, false}) {
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::byte>> received;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      sent.push_back(numbers(lengths[i], static_cast<int>(i)));
      received.emplace_back(lengths[i]);
    }
    std::vector<End> ends(2 * lengths.size());
    const auto tag = [&](std::size_t i) {
      return Tag{.group = asked_first ? 1u : 2u, .number = static_cast<std::uint32_t>(i)};
    };
    const auto ask = [&] {
      for (std::size_t i = lengths.size(); i-- > 0;) {  // in another order
        one.mailbox->expect(0, tag(i), received[i], ends[2 * i].done());
      }
    };
    if (asked_first) ask();
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      zero.mailbox->post(1, {.tag = tag(i), .bytes = sent[i], .done = ends[2 * i + 1].done()});
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) ends[2 * i + 1].wait();
    if (!asked_first) ask();
    for (std::size_t i = 0; i < lengths.size(); ++i) ends[2 * i].wait();
    EXPECT_EQ(sent, received);
  }
}

TEST(Mailbox, BothWritesAtOnceMoreThanSocketsHold) {
  Rank zero(0);
  Rank one(1);
  connect(zero, one);
  const auto sent = numbers(32 << 20, 1);
  std::vector<std::byte> to_zero(sent.size());
  std::vector<std::byte> to_one(sent.size());
  std::vector<End> ends(4);
  zero.mailbox->post(1, {.tag = {}, .bytes = sent, .done = ends[0].done()});
  one.mailbox->post(0, {.tag = {}, .bytes = sent, .done = ends[1].done()});
  zero.mailbox->expect(1, {}, to_zero, ends[2].done());
  one.mailbox->expect(0, {}, to_one, ends[3].done());
  for (End& end : ends) end.wait();
  EXPECT_EQ(to_zero, sent);
  EXPECT_EQ(to_one, sent);
}

TEST(Mailbox, NamesWhoHasLeft) {
  Rank zero(0);
  auto one = std::make_unique<Rank>(1);
  connect(zero, *one);
  const auto sent = numbers(1000, 1);
  End posted;
  one->mailbox->post(0, {.tag = {.group = 1}, .bytes = sent, .done = posted.done()});
  End never;
  std::vector<std::byte> nothing(1);
  zero.mailbox->expect(1, {.group = 2}, nothing, never.done());
  const std::string where = one->address.text();
  one.reset();  // in good order: what it has posted arrives
  EXPECT_EQ(never.problem(), "rank 1 at " + where + " has left");
  std::vector<std::byte> received(1000);
  End arrived;
  zero.mailbox->expect(1, {.group = 1}, received, arrived.done());
  arrived.wait();
  EXPECT_EQ(received, sent);
  End late;
  zero.mailbox->post(1, {.tag = {}, .bytes = sent, .done = late.done()});
  EXPECT_EQ(late.problem(), "rank 1 at " + where + " has left");
}

TEST(Mailbox, NamesWhoIsGone) {
  Rank zero(0);
  Rank one(1);
  connect(zero, one);
  End never;
  std::vector<std::byte> nothing(1);
  zero.mailbox->expect(1, {}, nothing, never.done());
  one.mailbox->abort();
  EXPECT_EQ(never.problem(), "rank 1 at " + one.address.text() + " closed the connection");
}

TEST(Mailbox, RefusesALetterOfAnotherLength) {
  Rank zero(0);
  Rank one(1);
  connect(zero, one);
  const auto sent = numbers(10, 1);
  End posted;
  End received;
  std::vector<std::byte> room(11);
  zero.mailbox->expect(1, {}, room, received.done());
  one.mailbox->post(0, {.tag = {}, .bytes = sent, .done = posted.done()});
  EXPECT_EQ(received.problem(), "rank 1 at " + one.address.text() +
                                    " to rank 0: it sent 10 bytes where 11 were awaited");
  static_cast<void>(posted.problem());  // sent or not, its bytes are ours again
}

TEST(Mailbox, SaysWhomItCannotReach) {
  Rank one(1);
  const FileDescriptor deaf = listen_on({"127.0.0.1", 0});  // lets in, and says nothing
  const Address where = bound_address(deaf);
  try {
    one.mailbox->connect({{0, where}}, Seconds(0.5));
    FAIL();
  } catch (const PeerError& error) {
    EXPECT_EQ(std::string(error.what()),
              "rank 1 has no connection to rank 0 at " + where.text() + ": nothing answers");
  }
}

TEST(Mailbox, KeepsOutWhoDoesNotKnowTheKey) {
  Rank zero(0);
  Rank stranger(1, {}, "another");
  EXPECT_THROW(stranger.mailbox->connect({{0, zero.address}}, Seconds(0.5)), PeerError);
  Rank one(1);
  connect(zero, one);
}

// --- somebody in between, or in a rank's place ---

FileDescriptor dial(const Address& address) {
  const SocketAddress where(address);
  FileDescriptor socket(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), where.get(), where.bytes()), 0);
  return socket;
}

// Rank 1 by hand: proves itself and does nothing else.
FileDescriptor mute_peer(const Address& zero) {
  FileDescriptor socket = dial(zero);
  Handshake handshake = Handshake::dial("key", {.from = 1, .to = 0, .view = 1});
  while (true) {
    const std::vector<std::byte> out = handshake.take_outgoing();
    EXPECT_EQ(::send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL), std::ssize(out));
    if (handshake.awaited() == 0) return socket;
    std::vector<std::byte> in(handshake.awaited());
    EXPECT_EQ(::recv(socket.get(), in.data(), in.size(), MSG_WAITALL), std::ssize(in));
    EXPECT_TRUE(handshake.take(in));
  }
}

TEST(Mailbox, NamesWhoIsSilent) {
  Rank zero(0, {.beat = Seconds(0.05), .silence = Seconds(0.4)});
  const FileDescriptor peer = mute_peer(zero.address);
  zero.mailbox->connect({{1, {"127.0.0.1", 1}}}, kLimit);
  End never;
  std::vector<std::byte> nothing(1);
  const auto begin = Clock::now();
  zero.mailbox->expect(1, {}, nothing, never.done());
  EXPECT_TRUE(never.problem().starts_with("rank 1 at 127.0.0.1:1 has been silent for 0."));
  EXPECT_LT(since(begin), Seconds(2));
}

TEST(Mailbox, AnIdlePeerIsNotSilent) {
  const Limits limits{.beat = Seconds(0.05), .silence = Seconds(0.3)};
  Rank zero(0, limits);
  Rank one(1, limits);
  connect(zero, one);
  End idle;
  std::vector<std::byte> room(1);
  zero.mailbox->expect(1, {}, room, idle.done());
  std::this_thread::sleep_for(Seconds(1));  // the time that is to pass is the test
  const auto sent = numbers(1, 1);
  End posted;
  one.mailbox->post(0, {.tag = {}, .bytes = sent, .done = posted.done()});
  posted.wait();
  idle.wait();
}

std::size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(Mailbox, StrangersWhoTakeAllPlacesDoNotKeepMembersOut) {
  Rank zero(0, {.handshake = Seconds(60), .strangers = 4});
  Rank one(1);
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 20; ++i) strangers.push_back(dial(zero.address));
  connect(zero, one);  // long before any of them has to go
}

TEST(Mailbox, StrangersDoNotDisturbIt) {
  Rank zero(0, {.handshake = Seconds(0.5), .strangers = 8});
  Rank one(1);
  connect(zero, one);
  const std::size_t before = entries_of("/proc/self/fd");
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 100; ++i) {
    strangers.push_back(dial(zero.address));
    if (i % 2 == 0) ::send(strangers.back().get(), "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
  }
  const auto sent = numbers(100'000, 1);
  std::vector<std::byte> received(sent.size());
  End posted;
  End arrived;
  zero.mailbox->expect(1, {}, received, arrived.done());
  one.mailbox->post(0, {.tag = {}, .bytes = sent, .done = posted.done()});
  posted.wait();
  arrived.wait();
  EXPECT_EQ(received, sent);
  EXPECT_LE(entries_of("/proc/self/fd"), before + strangers.size() + 8);
  // Whoever is let in is gone after its time: then all our ends are closed.
  const Deadline deadline(kLimit);
  while (entries_of("/proc/self/fd") > before + strangers.size() && !deadline.passed()) {
    std::this_thread::sleep_for(Seconds(0.01));
  }
  EXPECT_EQ(entries_of("/proc/self/fd"), before + strangers.size());
  Rank two(1, {}, "key");  // and members still come in
  Rank other(0);
  connect(other, two);
}

TEST(Mailbox, LeavesNothingBehind) {
  const auto once = [] {
    Rank zero(0);
    Rank one(1);
    connect(zero, one);
  };
  once();
  const std::size_t descriptors = entries_of("/proc/self/fd");
  const std::size_t threads = entries_of("/proc/self/task");
  const auto begin = Clock::now();
  for (int i = 0; i < 50; ++i) once();
  EXPECT_LT(since(begin), Seconds(25));  // each within half a second
  EXPECT_EQ(entries_of("/proc/self/fd"), descriptors);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
}

}  // namespace
}  // namespace daso::tcp
