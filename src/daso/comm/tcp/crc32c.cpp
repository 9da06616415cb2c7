// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>

#include "daso/comm/tcp/integrity.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace daso::tcp {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, its bits in reverse

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}();

std::uint32_t by_table(std::uint32_t sum, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    sum = (sum >> 8) ^ kTable[(sum ^ static_cast<std::uint32_t>(byte)) & 0xff];
  }
  return sum;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(std::uint32_t sum,
                                                               std::span<const std::byte> bytes) {
  std::uint64_t wide = sum;
  std::size_t done = 0;
  for (; done + sizeof(std::uint64_t) <= bytes.size(); done += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + done, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  return by_table(static_cast<std::uint32_t>(wide), bytes.subspan(done));
}
#endif

}  // namespace

std::uint32_t crc32c(std::uint32_t before, std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~by_instruction(~before, bytes);
#endif
  return ~by_table(~before, bytes);
}

}  // namespace daso::tcp
