// SPDX-License-Identifier: Apache-2.0
// Mailboxes with somebody on the way who turns bits of what they write to each other.
#include "comm/mailboxes.h"
#include "relay.h"

namespace daso::tcp {
namespace {

// A pair of ranks with somebody in between, of whom the higher calls. Nothing is said but what a
// test says, so that bytes can be counted.
struct DamagedPair {
  static constexpr Limits kQuiet{.beat = Seconds(60)};
  // Behind the handshake comes the header of the first letter.
  static constexpr std::uint64_t kFromOne = 96;
  static constexpr std::uint64_t kFromZero = 64;

  DamagedPair() : zero(0, kQuiet), one(1, kQuiet), relay(zero.address) {
    auto other = std::async([&] { zero.mailbox->connect({{1, one.address}}, kLimit); });
    one.mailbox->connect({{0, relay.address()}}, kLimit);
    other.get();
  }

  // Both write to each other, twice, and get what was sent.
  void write(std::size_t length, std::shared_ptr<const void> stays = nullptr) {
    const auto sent = numbers(length, 1);
    std::vector<std::vector<std::byte>> received(4, std::vector<std::byte>(length));
    std::vector<End> ends(8);
    for (std::uint32_t i = 0; i < 2; ++i) {
      const Tag tag{.number = i};
      zero.mailbox->expect(1, tag, received[2 * i], ends[4 * i].done());
      one.mailbox->expect(0, tag, received[2 * i + 1], ends[4 * i + 1].done());
      zero.mailbox->post(
          1, {.tag = tag, .bytes = sent, .done = ends[4 * i + 2].done(), .stays = stays});
      one.mailbox->post(
          0, {.tag = tag, .bytes = sent, .done = ends[4 * i + 3].done(), .stays = stays});
    }
    for (End& end : ends) end.wait();
    for (const auto& letter : received) EXPECT_EQ(letter, sent);
  }

  Rank zero;
  Rank one;
  test::Relay relay;
};

using Way = test::Relay::Way;

TEST(MailboxDamage, ADamagedLetterIsSentAgain) {
  const auto held = std::make_shared<const int>(0);
  for (const std::shared_ptr<const void>& stays : {std::shared_ptr<const void>(), {held}}) {
    for (const std::size_t length : {0, 100, 300'000}) {  // of which a copy is kept, and not
      for (const std::size_t place : {std::size_t{0}, length / 2, length + kChecksumBytes - 1}) {
        SCOPED_TRACE(testing::Message() << length << " bytes, at " << place);
        DamagedPair pair;
        pair.relay.damage(Way::kFromCaller, DamagedPair::kFromOne + kHeaderBytes + place);
        pair.relay.damage(Way::kToCaller, DamagedPair::kFromZero + kHeaderBytes + place);
        pair.write(length, stays);
      }
    }
  }
}

TEST(MailboxDamage, EveryOtherLetterMayBeDamagedToo) {
  DamagedPair pair;
  constexpr std::size_t kLength = 1000;
  for (std::uint64_t i = 0; i < 2; ++i) {
    pair.relay.damage(
        Way::kFromCaller,
        DamagedPair::kFromOne + i * (kHeaderBytes + kLength + kChecksumBytes) + kHeaderBytes);
  }
  pair.write(kLength);
}

TEST(MailboxDamage, AHeaderIsTwiceThere) {
  for (const std::size_t place : {std::size_t{5}, kHeaderBytes / 2 + 5}) {
    DamagedPair pair;
    pair.relay.damage(Way::kFromCaller, DamagedPair::kFromOne + place);
    pair.write(1000);
  }
}

// What comes of one letter to rank 0 and of another one before it.
struct Outcome {
  std::string first;
  std::string second;
};

Outcome outcome_of(DamagedPair& pair, std::size_t length) {
  const auto sent = numbers(length, 1);
  std::vector<std::byte> first(length);
  std::vector<std::byte> second(length);
  End first_end;
  End second_end;
  End sent_first;
  End sent_second;
  pair.zero.mailbox->expect(1, {.number = 1}, first, first_end.done());
  pair.zero.mailbox->expect(1, {.number = 2}, second, second_end.done());
  pair.one.mailbox->post(0, {.tag = {.number = 1}, .bytes = sent, .done = sent_first.done()});
  pair.one.mailbox->post(0, {.tag = {.number = 2}, .bytes = sent, .done = sent_second.done()});
  Outcome outcome{.first = first_end.problem(), .second = second_end.problem()};
  static_cast<void>(sent_first.problem());  // sent or not, its bytes are ours again
  static_cast<void>(sent_second.problem());
  return outcome;
}

TEST(MailboxDamage, DamageOfBothCopiesOfAHeaderEndsTheConnection) {
  DamagedPair pair;
  constexpr std::uint64_t kSecond = DamagedPair::kFromOne + kHeaderBytes + 100 + kChecksumBytes;
  pair.relay.damage(Way::kFromCaller, kSecond + 5);
  pair.relay.damage(Way::kFromCaller, kSecond + kHeaderBytes / 2 + 5);
  const Outcome outcome = outcome_of(pair, 100);
  EXPECT_EQ(outcome.first, "");  // it had arrived
  EXPECT_EQ(outcome.second, "rank 1 at " + pair.one.address.text() +
                                " to rank 0: what it sent was damaged on the way (no header of "
                                "ours)");
}

TEST(MailboxDamage, ASecondDamageOfALetterEndsTheConnection) {
  DamagedPair pair;
  constexpr std::uint64_t kFrame = kHeaderBytes + 100 + kChecksumBytes;
  pair.relay.damage(Way::kFromCaller, DamagedPair::kFromOne + kFrame + kHeaderBytes);
  pair.relay.damage(Way::kFromCaller, DamagedPair::kFromOne + 2 * kFrame + kHeaderBytes);
  const Outcome outcome = outcome_of(pair, 100);
  EXPECT_EQ(outcome.first, "");
  EXPECT_EQ(outcome.second,
            "rank 1 at " + pair.one.address.text() +
                " to rank 0: letter 0/2 of 100 bytes from it was damaged on the way, and again "
                "when it was sent once more (its checksum is wrong)");
}

TEST(MailboxDamage, ALetterThatDidNotStayCannotBeSentAgain) {
  DamagedPair pair;
  pair.relay.damage(Way::kFromCaller, DamagedPair::kFromOne + kHeaderBytes);
  const auto sent = std::make_shared<std::vector<std::byte>>(numbers(100, 1));
  std::vector<std::byte> received(100);
  End end;
  End sending;
  End next;
  // As soon as that is allowed.
  const Done change = [sent, done = sending.done()](const std::exception_ptr& error) {
    sent->front() ^= std::byte{1};
    done(error);
  };
  pair.one.mailbox->post(0, {.bytes = *sent, .done = change, .stays = sent});
  sending.wait();
  pair.zero.mailbox->expect(1, {}, received, end.done());
  EXPECT_NE(end.problem(), "");
  pair.one.mailbox->post(0, {.tag = {.number = 1}, .bytes = *sent, .done = next.done()});
  EXPECT_NE(next.problem().find("letter 0/0 to it was damaged on the way, and cannot be sent "
                                "again: its memory has been used for something else"),
            std::string::npos);
}

TEST(MailboxDamage, WhoLeavesStillSendsAgain) {
  DamagedPair pair;
  pair.relay.damage(Way::kFromCaller, DamagedPair::kFromOne + kHeaderBytes);
  const auto sent = numbers(100, 1);
  std::vector<std::byte> received(100);
  End end;
  End sending;
  pair.zero.mailbox->expect(1, {}, received, end.done());
  pair.one.mailbox->post(0, {.bytes = sent, .done = sending.done()});
  pair.one.mailbox->stop();
  end.wait();
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace daso::tcp
