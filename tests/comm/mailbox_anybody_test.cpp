// SPDX-License-Identifier: Apache-2.0
// Letters from whoever sends one.
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "comm/mailboxes.h"

namespace daso::tcp {
namespace {

constexpr std::uint32_t kGroup = 7;

std::vector<std::byte> text(int sender, std::uint32_t number, std::size_t length = 8) {
  std::vector<std::byte> bytes(length);
  const std::array<std::uint32_t, 2> words = {static_cast<std::uint32_t>(sender), number};
  std::memcpy(bytes.data(), words.data(), sizeof words);
  return bytes;
}

void post(Rank& from, int to, std::uint32_t number, std::vector<std::byte> bytes, Done done) {
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  from.mailbox->post(to, {.tag = {.group = kGroup, .number = number},
                          .bytes = *kept,
                          .done = [kept, done](const std::exception_ptr& error) {
                            if (done) done(error);
                          }});
}

std::string problem_of(Rank& rank, Seconds limit) {
  try {
    rank.mailbox->receive(kGroup, limit);
    return "";
  } catch (const PeerError& error) {
    return error.what();
  }
}

// Ranks 1 to 3 write to rank 0.
struct Four {
  Four(Limits limits = {}) {
    for (int rank = 0; rank < 4; ++rank) ranks.push_back(std::make_unique<Rank>(rank, limits));
    std::map<int, Address> others;
    std::vector<std::future<void>> calls;
    for (int rank = 1; rank < 4; ++rank) {
      Rank& own = *ranks[static_cast<std::size_t>(rank)];
      others[rank] = own.address;
      calls.push_back(std::async(std::launch::async, [&own, first = ranks[0]->address] {
        own.mailbox->connect({{0, first}}, kLimit);
      }));
    }
    ranks[0]->mailbox->connect(others, kLimit);
    for (auto& call : calls) call.get();
  }
  std::vector<std::unique_ptr<Rank>> ranks;
};

TEST(FromAnybody, EachSendersLettersComeInItsOrder) {
  constexpr std::uint32_t kLetters = 300;
  Four four;
  std::vector<std::jthread> senders;
  for (int rank = 1; rank < 4; ++rank) {
    senders.emplace_back([&, rank] {
      for (std::uint32_t number = 0; number < kLetters; ++number) {
        // Of lengths that are copied and that are not, the later one often shorter.
        const std::size_t length = number % 7 == 0 ? 300'000 : 8 + number % 100;
        post(*four.ranks[static_cast<std::size_t>(rank)], 0, number, text(rank, number, length),
             {});
      }
    });
  }
  std::array<std::uint32_t, 4> next{};
  for (std::uint32_t letter = 0; letter < 3 * kLetters; ++letter) {
    const Mailbox::Received received = four.ranks[0]->mailbox->receive(kGroup, kLimit);
    std::uint32_t& number = next.at(static_cast<std::size_t>(received.from));
    const std::size_t length = number % 7 == 0 ? 300'000 : 8 + number % 100;
    ASSERT_EQ(received.bytes, text(received.from, number, length));
    ++number;
  }
  EXPECT_EQ(next, (std::array<std::uint32_t, 4>{0, kLetters, kLetters, kLetters}));
}

TEST(FromAnybody, NobodyWhoSendsMuchKeepsOthersWaiting) {
  Four four;
  std::vector<End> ends(11);
  for (std::uint32_t i = 0; i < 10; ++i) post(*four.ranks[1], 0, i, text(1, i), ends[i].done());
  post(*four.ranks[3], 0, 0, text(3, 0), ends[10].done());
  // Both are there by the time that a letter behind them is.
  for (const int rank : {1, 3}) {
    std::vector<std::byte> last(1);
    End here;
    four.ranks[0]->mailbox->expect(rank, {.group = 8}, last, here.done());
    four.ranks[static_cast<std::size_t>(rank)]->mailbox->post(
        0, {.tag = {.group = 8}, .bytes = last, .done = [](const std::exception_ptr&) {}});
    here.wait();
  }
  EXPECT_EQ(four.ranks[0]->mailbox->receive(kGroup, kLimit).from, 1);
  EXPECT_EQ(four.ranks[0]->mailbox->receive(kGroup, kLimit).from, 3);
  for (std::uint32_t i = 1; i < 10; ++i) {
    EXPECT_EQ(four.ranks[0]->mailbox->receive(kGroup, kLimit).bytes, text(1, i));
  }
}

TEST(FromAnybody, WaitsNoLongerThanItsLimit) {
  Four four;
  const auto begin = Clock::now();
  EXPECT_EQ(problem_of(*four.ranks[0], Seconds(0.2)), "no letter has come within the limit");
  EXPECT_GE(since(begin).count(), 0.2);
  EXPECT_LT(since(begin).count(), 5);
  post(*four.ranks[2], 0, 0, text(2, 0), {});
  EXPECT_EQ(four.ranks[0]->mailbox->receive(kGroup, kLimit).from, 2);
}

// What has come is there, and then there is nobody any more.
TEST(FromAnybody, EndsWithTheLastSender) {
  Four four;
  post(*four.ranks[2], 0, 0, text(2, 0), {});
  for (const std::size_t rank : {1, 2, 3}) four.ranks[rank]->mailbox->stop();
  EXPECT_EQ(four.ranks[0]->mailbox->receive(kGroup, kLimit).bytes, text(2, 0));
  EXPECT_EQ(problem_of(*four.ranks[0], kLimit), "there is nobody left who could send a letter");
  four.ranks[0]->mailbox->stop();
  EXPECT_EQ(problem_of(*four.ranks[0], kLimit), "this rank has left");
}

// A sender that is not listened to has to wait: no more than the bound is kept here, and what
// sockets hold.
TEST(FromAnybody, PushesBackWhoSendsMoreThanMayWait) {
  constexpr std::size_t kLength = 1 << 20;
  constexpr std::uint32_t kLetters = 64;
  Four four({.waiting = 4 * kLength});
  std::atomic<std::uint32_t> sent = 0;
  for (std::uint32_t number = 0; number < kLetters; ++number) {
    post(*four.ranks[1], 0, number, text(1, number, kLength),
         [&sent](const std::exception_ptr& error) { sent += error ? 0 : 1; });
  }
  for (std::uint32_t number = 0; number < kLetters; ++number) {
    // A letter is done with when it is here: those that were taken, and those that may wait.
    EXPECT_LE(sent, number + 6) << number;
    EXPECT_EQ(four.ranks[0]->mailbox->receive(kGroup, kLimit).bytes, text(1, number, kLength));
  }
}

// From another process, which is killed between its letters.
TEST(FromAnybody, HearsAProcessUpToItsEnd) {
  FileDescriptor listening = listen_on({"127.0.0.1", 0});
  const Address here = bound_address(listening);
  const pid_t child = ::fork();  // before there is a thread
  if (child == 0) {
    listening.close();
    Rank one(1);
    one.mailbox->connect({{0, here}}, kLimit);
    for (std::uint32_t number = 0; number < 100; ++number) {
      End end;
      post(one, 0, number, text(1, number), end.done());
      end.wait();
    }
    ::kill(::getpid(), SIGKILL);
  }
  Mailbox zero(
      {.rank = 0, .view = 1, .key = "key", .listening = std::move(listening), .limits = {}});
  zero.connect({{1, here}}, kLimit);  // the higher rank dials
  for (std::uint32_t number = 0; number < 100; ++number) {
    EXPECT_EQ(zero.receive(kGroup, kLimit).bytes, text(1, number));
  }
  EXPECT_THROW(zero.receive(kGroup, kLimit), PeerError);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace daso::tcp
