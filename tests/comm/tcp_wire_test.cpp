// SPDX-License-Identifier: Apache-2.0
// What a connection says, on bytes alone: checksums, proofs, headers, handshakes.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>

#include "daso/base/error.h"
#include "daso/comm/tcp/connection.h"
#include "daso/comm/tcp/frame.h"
#include "daso/comm/tcp/handshake.h"
#include "daso/comm/tcp/integrity.h"

namespace daso::tcp {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte byte : digest) {
    for (const int shift : {4, 0}) {
      text += "0123456789abcdef"[(static_cast<unsigned>(byte) >> shift) & 15];
    }
  }
  return text;
}

TEST(Crc32c, IsThePublishedOne) {  // RFC 3720, B.4
  EXPECT_EQ(crc32c(0, bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(0, bytes_of(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(crc32c(0, bytes_of(std::string(32, '\xff'))), 0x62a8ab43u);
  EXPECT_EQ(crc32c(0, {}), 0u);
}

TEST(Crc32c, GoesOnWithAnotherPart) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(31 * i);
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::uint32_t first = crc32c(0, bytes_of(text).first(cut));
    EXPECT_EQ(crc32c(first, bytes_of(text).subspan(cut)), crc32c(0, bytes_of(text))) << cut;
  }
}

TEST(Hmac, IsThePublishedOne) {  // RFC 4231, cases 1, 2, 6 and 7
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), bytes_of("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", bytes_of("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'),
                            bytes_of("Test Using Larger Than Block-Size Key - Hash Key First"))),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hex(hmac_sha256(
                std::string(131, '\xaa'),
                bytes_of("This is a test using a larger than block-size key and a larger than "
                         "block-size data. The key needs to be hashed before being used by the "
                         "HMAC algorithm."))),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Frame, ComesBackAsItWas) {
  const Header header{
      .kind = Header::Kind::kLetter, .tag = {.group = 7, .number = 9}, .length = 1ull << 40};
  std::array<std::byte, kHeaderBytes> bytes{};
  encode(header, bytes);
  const auto back = decode(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->kind, header.kind);
  EXPECT_EQ(back->tag, header.tag);
  EXPECT_EQ(back->length, header.length);
}

TEST(Frame, ComesBackWithAnyBitTurnedInOneOfItsCopies) {
  constexpr std::size_t kCopy = kHeaderBytes / 2;
  const Tag tag{.group = 7, .number = 9};
  std::array<std::byte, kHeaderBytes> bytes{};
  encode({.kind = Header::Kind::kLetter, .tag = tag, .length = 100, .received = 3}, bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto mask = static_cast<std::byte>(1 << (bit % 8));
    auto damaged = bytes;
    damaged[bit / 8] ^= mask;
    const auto back = decode(damaged);
    ASSERT_TRUE(back.has_value()) << bit;
    EXPECT_EQ(back->tag, tag);
    EXPECT_EQ(back->length, 100u);
    EXPECT_EQ(back->received, 3u);
    damaged[(bit / 8 + kCopy) % kHeaderBytes] ^= mask;
    EXPECT_FALSE(decode(damaged).has_value()) << bit;
  }
}

TEST(FrameReader, GivesWholeLettersHoweverTheyCome) {
  const std::string text = "a letter";
  std::vector<std::byte> stream = framed_letter({.group = 1, .number = 2}, bytes_of(text));
  for (const auto& more : {framed_letter({}, {}), framed_goodbye()}) {
    stream.insert(stream.end(), more.begin(), more.end());
  }
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader;
    std::vector<FrameReader::Frame> frames;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.add(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
      while (auto frame = reader.next(text.size())) frames.push_back(*std::move(frame));
    }
    ASSERT_EQ(frames.size(), 3u) << piece;
    EXPECT_EQ(frames[0].header.tag, (Tag{.group = 1, .number = 2}));
    EXPECT_TRUE(std::ranges::equal(frames[0].letter, bytes_of(text)));
    EXPECT_TRUE(frames[1].letter.empty());
    EXPECT_EQ(frames[2].header.kind, Header::Kind::kGoodbye);
  }
}

TEST(FrameReader, RefusesAnyBitOfALetterTurnedAndWhatIsTooLong) {
  const std::vector<std::byte> frame = framed_letter({.group = 1}, bytes_of("text"));
  for (std::size_t bit = 8 * kHeaderBytes; bit < 8 * frame.size(); ++bit) {
    auto damaged = frame;
    damaged[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    FrameReader reader;
    reader.add(damaged);
    EXPECT_THROW(reader.next(100), PeerError) << bit;
  }
  FrameReader reader;
  reader.add(std::span(frame).first(kHeaderBytes));  // known before its bytes come
  EXPECT_THROW(reader.next(3), PeerError);
}

// Carries what both say until neither says more. False: one of them has refused the other.
bool meet(Handshake& dialler, Handshake& acceptor) {
  const auto carry = [](Handshake& from, Handshake& to) {
    const std::vector<std::byte> bytes = from.take_outgoing();
    return bytes.empty() || to.take(bytes);
  };
  return carry(dialler, acceptor) && carry(acceptor, dialler) && carry(dialler, acceptor) &&
         dialler.awaited() == 0 && acceptor.awaited() == 0;
}

constexpr Introduction kThreeToOne{.from = 3, .to = 1, .view = 5};

TEST(Handshake, TellsTheAcceptorWhoComes) {
  Handshake dialler = Handshake::dial("key", kThreeToOne);
  Handshake acceptor = Handshake::accept("key", 1, 5);
  ASSERT_TRUE(meet(dialler, acceptor));
  EXPECT_EQ(acceptor.introduction().from, 3);
}

TEST(Handshake, RefusesAnotherKeyRankViewOrService) {
  Handshake dialler = Handshake::dial("key", kThreeToOne);
  for (Handshake acceptor :
       {Handshake::accept("kez", 1, 5), Handshake::accept("key", 2, 5),
        Handshake::accept("key", 1, 4), Handshake::accept("key", 1, 5, Service::kLaunchers)}) {
    Handshake fresh = dialler;
    EXPECT_FALSE(meet(fresh, acceptor));
  }
}

TEST(Handshake, TakesNoProofTwice) {
  // Somebody who has heard another pair says the dialler's part again.
  Handshake dialler = Handshake::dial("key", kThreeToOne);
  Handshake acceptor = Handshake::accept("key", 1, 5);
  const std::vector<std::byte> hello = dialler.take_outgoing();
  ASSERT_TRUE(acceptor.take(hello));
  ASSERT_TRUE(dialler.take(acceptor.take_outgoing()));
  const std::vector<std::byte> proof = dialler.take_outgoing();
  Handshake second = Handshake::accept("key", 1, 5);
  ASSERT_TRUE(second.take(hello));
  EXPECT_FALSE(second.take(proof));
}

TEST(Handshake, TakesNoProofOfTheOtherPart) {
  // Who does not know the key sends back what the acceptor has said.
  Handshake dialler = Handshake::dial("another", kThreeToOne);
  Handshake acceptor = Handshake::accept("key", 1, 5);
  ASSERT_TRUE(acceptor.take(dialler.take_outgoing()));
  const std::vector<std::byte> answer = acceptor.take_outgoing();
  EXPECT_FALSE(acceptor.take(std::span(answer).last(32)));
}

// After a cut of some seconds the system would wait for as long again.
TEST(Connection, SendsAgainSoonWhatWasLost) {
  constexpr int kLongest = 44;  // TCP_RTO_MAX_MS
  const Connection connection{FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  int value = 0;
  socklen_t size = sizeof value;
  ASSERT_EQ(0, ::getsockopt(connection.descriptor(), IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &value,
                            &size));
  EXPECT_EQ(1, value);
  if (::getsockopt(connection.descriptor(), IPPROTO_TCP, kLongest, &value, &size) != 0) {
    GTEST_SKIP() << "this kernel has no limit for the time between retransmissions";
  }
  EXPECT_EQ(1000, value);
}

}  // namespace
}  // namespace daso::tcp
