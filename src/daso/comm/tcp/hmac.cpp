// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <vector>

#include "daso/comm/tcp/integrity.h"

namespace daso::tcp {
namespace {

constexpr std::size_t kBlock = 64;  // bytes

// The first 32 bits of the fractions of the cube roots of the first 64 primes, as FIPS 180-4 has
// them.
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

using Words = std::array<std::uint32_t, 8>;

constexpr Words kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t place) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    word = (word << 8) | static_cast<std::uint32_t>(bytes[place + i]);
  }
  return word;
}

void mix(Words& state, std::span<const std::byte> block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) w[i] = word_at(block, 4 * i);
  for (std::size_t i = 16; i < w.size(); ++i) {
    const std::uint32_t a = w[i - 15];
    const std::uint32_t b = w[i - 2];
    const std::uint32_t s0 = std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3);
    const std::uint32_t s1 = std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  Words s = state;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const std::uint32_t s1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    const std::uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
    const std::uint32_t first = s[7] + s1 + choice + kRound[i] + w[i];
    const std::uint32_t s0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    const std::uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    s = {first + s0 + majority, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
  }
  for (std::size_t i = 0; i < s.size(); ++i) state[i] += s[i];
}

Digest sha256(std::vector<std::byte> message) {
  const std::uint64_t bits = 8 * message.size();
  message.push_back(std::byte{0x80});
  while (message.size() % kBlock != kBlock - sizeof bits) message.push_back(std::byte{0});
  for (int shift = 56; shift >= 0; shift -= 8) {
    message.push_back(static_cast<std::byte>((bits >> shift) & 0xff));
  }
  Words state = kStart;
  const std::span<const std::byte> all(message);
  for (std::size_t place = 0; place < all.size(); place += kBlock) {
    mix(state, all.subspan(place, kBlock));
  }
  Digest digest{};
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::byte>((state[i / 4] >> (24 - 8 * (i % 4))) & 0xff);
  }
  return digest;
}

}  // namespace

Digest hmac_sha256(std::string_view key, std::span<const std::byte> message) {
  const auto key_bytes = std::as_bytes(std::span(key));
  std::vector<std::byte> padded(key_bytes.begin(), key_bytes.end());
  if (padded.size() > kBlock) {
    const Digest short_key = sha256(std::move(padded));
    padded.assign(short_key.begin(), short_key.end());
  }
  padded.resize(kBlock);
  const auto with_key = [&](std::byte mask, std::span<const std::byte> rest) {
    std::vector<std::byte> all = padded;
    for (std::byte& byte : all) byte ^= mask;
    all.insert(all.end(), rest.begin(), rest.end());
    return sha256(std::move(all));
  };
  return with_key(std::byte{0x5c}, with_key(std::byte{0x36}, message));
}

bool equal(const Digest& one, const Digest& other) {
  std::byte difference{0};
  for (std::size_t i = 0; i < one.size(); ++i) difference |= one[i] ^ other[i];
  return difference == std::byte{0};
}

}  // namespace daso::tcp
