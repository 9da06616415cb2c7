// SPDX-License-Identifier: Apache-2.0
#include "daso/base/checksum.h"

#include <array>
#include <bit>
#include <cstring>

namespace daso {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the words of a checksum are little-endian");

constexpr std::uint64_t kPrime1 = 0x9e3779b185ebca87ULL;
constexpr std::uint64_t kPrime2 = 0xc2b2ae3d27d4eb4fULL;
constexpr std::uint64_t kPrime3 = 0x165667b19e3779f9ULL;
constexpr std::uint64_t kPrime4 = 0x85ebca77c2b2ae63ULL;
constexpr std::uint64_t kPrime5 = 0x27d4eb2f165667c5ULL;

constexpr std::size_t kStripe = 32;  // bytes: one word for each of the four lanes

template <typename Word>
Word word_at(const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

std::uint64_t mix(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

// Whole stripes, in four lanes that do not wait for each other; `bytes` is left with the rest.
std::uint64_t stripes(std::span<const std::byte>& bytes) {
  std::array<std::uint64_t, 4> lanes = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  const std::byte* from = bytes.data();
  const std::byte* const end = from + bytes.size() / kStripe * kStripe;
  for (; from != end; from += kStripe) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      lanes[i] = mix(lanes[i], word_at<std::uint64_t>(from + 8 * i));
    }
  }
  bytes = bytes.subspan(bytes.size() / kStripe * kStripe);
  std::uint64_t hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) +
                       std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) hash = (hash ^ mix(0, lane)) * kPrime1 + kPrime4;
  return hash;
}

// What is left after the stripes: words, half a word, bytes.
std::uint64_t rest(std::uint64_t hash, std::span<const std::byte> bytes) {
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    hash ^= mix(0, word_at<std::uint64_t>(bytes.data()));
    hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  }
  if (bytes.size() >= 4) {
    hash ^= word_at<std::uint32_t>(bytes.data()) * kPrime1;
    hash = std::rotl(hash, 23) * kPrime2 + kPrime3;
    bytes = bytes.subspan(4);
  }
  for (const std::byte byte : bytes) {
    hash ^= std::to_integer<std::uint64_t>(byte) * kPrime5;
    hash = std::rotl(hash, 11) * kPrime1;
  }
  return hash;
}

// Every bit of the input reaches every bit of the result.
std::uint64_t spread(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33U)) * kPrime2;
  hash = (hash ^ (hash >> 29U)) * kPrime3;
  return hash ^ (hash >> 32U);
}

}  // namespace

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  const std::size_t length = bytes.size();
  const std::uint64_t hash = length >= kStripe ? stripes(bytes) : kPrime5;
  return spread(rest(hash + length, bytes));
}

}  // namespace daso
