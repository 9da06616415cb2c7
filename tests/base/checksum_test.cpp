// SPDX-License-Identifier: Apache-2.0
#include "daso/base/checksum.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <vector>

namespace daso {
namespace {

std::uint64_t checksum_of_text(std::string_view text) {
  return checksum_of(std::as_bytes(std::span(text)));
}

// The byte at i is 7 i + 3 modulo 251.
std::vector<std::byte> pattern(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>((7 * i + 3) % 251);
  return values;
}

TEST(Checksum, IsThePublishedOneOfKnownTexts) {
  EXPECT_EQ(checksum_of_text(""), 0xef46db3751d8e999ULL);
  EXPECT_EQ(checksum_of_text("a"), 0xd24ec4f1a98c6e5bULL);
  EXPECT_EQ(checksum_of_text("abc"), 0x44bc2cf5ad770999ULL);
  EXPECT_EQ(checksum_of_text("message digest"), 0x066ed728fceeb3beULL);
  EXPECT_EQ(checksum_of_text("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1ULL);
}

// From the Python package xxhash: xxh64(bytes((7 * i + 3) % 251 for i in range(length))).
TEST(Checksum, IsThatOfAnotherProgramForEveryKindOfLength) {
  EXPECT_EQ(checksum_of(pattern(1)), 0x1f25c8d0bc1f4bb6ULL);
  EXPECT_EQ(checksum_of(pattern(4)), 0x9bb64b7d66ee9fdaULL);
  EXPECT_EQ(checksum_of(pattern(7)), 0x9a7b149959ce60d8ULL);
  EXPECT_EQ(checksum_of(pattern(8)), 0xdab99d95c6f90092ULL);
  EXPECT_EQ(checksum_of(pattern(12)), 0xd52e407833af5133ULL);
  EXPECT_EQ(checksum_of(pattern(15)), 0x1b47cb8243cc8e32ULL);
  EXPECT_EQ(checksum_of(pattern(31)), 0xa2aa5f33cc4a6119ULL);
  EXPECT_EQ(checksum_of(pattern(32)), 0x23c3c17ef790fd97ULL);
  EXPECT_EQ(checksum_of(pattern(33)), 0x50a7cfc7ba588784ULL);
  EXPECT_EQ(checksum_of(pattern(63)), 0xf1438f15b9ed16e9ULL);
  EXPECT_EQ(checksum_of(pattern(64)), 0x2cd990a1beed6894ULL);
  EXPECT_EQ(checksum_of(pattern(100)), 0x778e26df8290f456ULL);
  EXPECT_EQ(checksum_of(pattern(1003)), 0x9c719c83390e0a58ULL);
}

TEST(Checksum, EveryFlippedBitChangesIt) {
  std::vector<std::byte> values = pattern(79);  // stripes, a word, half a word and single bytes
  std::set<std::uint64_t> seen = {checksum_of(values)};
  for (std::byte& value : values) {
    for (int bit = 0; bit < 8; ++bit) {
      value ^= std::byte{1} << bit;
      EXPECT_TRUE(seen.insert(checksum_of(values)).second);
      value ^= std::byte{1} << bit;
    }
  }
}

TEST(Checksum, DoesNotDependOnWhereTheBytesLie) {
  const std::vector<std::byte> values = pattern(1000);
  std::vector<std::byte> moved(values.size() + 8);
  for (std::size_t shift = 0; shift < 8; ++shift) {
    const auto place = moved.begin() + static_cast<std::ptrdiff_t>(shift);
    std::copy(values.begin(), values.end(), place);
    EXPECT_EQ(checksum_of({&*place, values.size()}), checksum_of(values));
  }
}

}  // namespace
}  // namespace daso
