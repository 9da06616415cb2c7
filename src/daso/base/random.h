// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>

namespace daso {

// Random numbers that are the same on every machine and with every compiler, as those of <random>'s
// distributions are not: splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t state) : state_(state) {}
  // A stream of its own for each list of keys, such as (seed, purpose, epoch).
  RandomStream(std::initializer_list<std::uint64_t> keys) {
    for (const std::uint64_t key : keys) state_ = mixed((state_ ^ key) + kGolden);
  }

  std::uint64_t next() { return mixed(state_ += kGolden); }

  // 0 ... bound - 1, each equally likely; bound is at least 1.
  std::uint64_t below(std::uint64_t bound) {
    // 2^64 mod bound values are too many for every rest to be equally frequent.
    const std::uint64_t excess = (0 - bound) % bound;
    std::uint64_t value = next();
    while (value < excess) value = next();
    return value % bound;
  }

  // Where the stream is: number i from here on, counted from 1, is mixed(position() + i * kGolden).
  // So any of them can be had without those before, on a device all at once.
  std::uint64_t position() const { return state_; }
  void skip(std::uint64_t numbers) { state_ += numbers * kGolden; }
  static constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio
  static constexpr std::uint64_t kFirstFactor = 0xbf58476d1ce4e5b9;
  static constexpr std::uint64_t kSecondFactor = 0x94d049bb133111eb;

  // 0 to below 1, a multiple of 2^-53.
  double fraction() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // -reach ... reach
  int around(int reach) {
    return static_cast<int>(below(2 * static_cast<std::uint64_t>(reach) + 1)) - reach;
  }

 private:
  static std::uint64_t mixed(std::uint64_t value) {
    value = (value ^ (value >> 30)) * kFirstFactor;
    value = (value ^ (value >> 27)) * kSecondFactor;
    return value ^ (value >> 31);
  }

  std::uint64_t state_ = 0;
};

}  // namespace daso
