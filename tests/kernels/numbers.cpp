// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "daso/base/random.h"

namespace daso::test {
namespace {

template <typename T>
void append(Bytes& bytes, T value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

// A binary format whose smallest normal number is 2^lowest and whose fraction has so many bits.
struct Format {
  int lowest;
  int fraction;
};
constexpr Format kHalf{-14, 10};
constexpr Format kBrain{-126, 7};

// The multiple of the format's spacing at this magnitude that is nearest, ties to even.
double rounded(double value, Format format) {
  if (value == 0) return value;
  const double spacing =
      std::ldexp(1.0, std::max(std::ilogb(value), format.lowest) - format.fraction);
  return std::nearbyint(value / spacing) * spacing;
}

// Sign, exponent and fraction of a number that the format has.
std::uint16_t half_bits(double value, Format format) {
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  const int one = 1 << format.fraction;
  if (magnitude < std::ldexp(1.0, format.lowest)) {
    const double units = magnitude / std::ldexp(1.0, format.lowest - format.fraction);
    return static_cast<std::uint16_t>(sign + static_cast<int>(units));
  }
  const int exponent = std::ilogb(magnitude);
  const int units = static_cast<int>(std::ldexp(magnitude, format.fraction - exponent));
  return static_cast<std::uint16_t>(sign + (exponent - format.lowest + 1) * one + (units - one));
}

// Of each sign on a wire that sends a scale with each block; 0 on others.
int levels_of(Wire wire) {
  if (const int bits = qsgd_bits(wire); bits != 0) return bits == 1 ? 1 : (1 << (bits - 1)) - 1;
  if (wire == Wire::kInt8) return 127;
  if (wire == Wire::kInt4) return 7;
  return 0;
}

float scale_of(std::span<const float> block, int levels) {
  float absmax = 0;
  for (const float d : block) absmax = std::max(absmax, std::abs(d));
  const float scale = absmax / static_cast<float>(levels);
  return scale < 0x1p-126F ? 0 : scale;
}

int quantum(float d, float scale, int levels) {
  if (scale == 0) return 0;
  return std::clamp(static_cast<int>(std::nearbyint(d / scale)), -levels, levels);
}

// 32 random bits for an element of a block: 64 for the block, then two rounds of a hash.
std::uint32_t random_bits(const Draws& draws, std::uint64_t block, std::uint32_t element) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  const std::uint64_t bits = RandomStream(draws.key + (draws.first_block + block) * kGolden).next();
  std::uint32_t hash = element ^ static_cast<std::uint32_t>(bits);
  hash = (hash ^ (hash >> 16U)) * 0x7feb352dU;
  hash ^= static_cast<std::uint32_t>(bits >> 32U);
  hash = (hash ^ (hash >> 15U)) * 0x846ca68bU;
  return hash ^ (hash >> 16U);
}

// The level that the random bits choose, with 24 bits behind the point: of one bit below or above,
// else of the level below and what is left.
int random_quantum(float d, float scale, Wire wire, std::uint32_t random) {
  const int levels = levels_of(wire);
  if (scale == 0) return wire == Wire::kQsgd1 ? 1 : 0;
  constexpr std::int64_t kOne = 1 << 24;
  const double exact = std::clamp(double{d / scale}, -double(levels), double(levels));
  const auto units = static_cast<std::int64_t>(std::nearbyint(exact * kOne));
  if (wire == Wire::kQsgd1) return units + kOne + (random >> 7U) >= 2 * kOne ? 1 : -1;
  const auto below = static_cast<std::int64_t>(std::floor(double(units) / kOne));
  const std::int64_t left = units - below * kOne;
  return static_cast<int>(below) + (left + (random >> 8U) >= kOne ? 1 : 0);
}

// Of block number `number`, in order.
std::vector<int> quanta(Wire wire, std::span<const float> block, const Draws& draws,
                        std::uint64_t number) {
  const int levels = levels_of(wire);
  const float scale = scale_of(block, levels);
  std::vector<int> all;
  for (std::uint32_t i = 0; i < kBlockElements; ++i) {
    all.push_back(qsgd_bits(wire) == 0
                      ? quantum(block[i], scale, levels)
                      : random_quantum(block[i], scale, wire, random_bits(draws, number, i)));
  }
  return all;
}

int code_of(Wire wire, int q) {
  if (wire == Wire::kInt8) return q & 0xff;
  if (wire == Wire::kQsgd1) return q == 1 ? 1 : 0;
  return q + levels_of(wire);
}

int code_bits(Wire wire) {
  if (wire == Wire::kInt8) return 8;
  return wire == Wire::kInt4 ? 4 : qsgd_bits(wire);
}

// So many bits of each code, one after the other, into bytes from their lowest bit on.
void append_bits(Bytes& bytes, const std::vector<int>& codes, int bits) {
  int place = 0;
  for (const int code : codes) {
    for (int bit = 0; bit < bits; ++bit, ++place) {
      if (place % 8 == 0) bytes.push_back(std::byte{0});
      bytes.back() |= static_cast<std::byte>(((code >> bit) & 1) << (place % 8));
    }
  }
}

void append_quanta(Bytes& bytes, Wire wire, float scale, const std::vector<int>& q) {
  append(bytes, scale);
  std::vector<int> codes;
  for (const int one : q) codes.push_back(code_of(wire, one));
  append_bits(bytes, codes, code_bits(wire));
}

void append_numbers(Bytes& bytes, Wire wire, std::span<const float> block) {
  for (const float d : block) {
    if (wire == Wire::kFp32) append(bytes, d);
    if (wire == Wire::kBf16) append(bytes, half_bits(rounded(d, kBrain), kBrain));
    if (wire == Wire::kFp16) append(bytes, half_bits(rounded(d, kHalf), kHalf));
  }
}

}  // namespace

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

Floats hard_numbers(std::size_t elements, float largest, std::mt19937& random) {
  const int highest = std::ilogb(largest) - 1;
  std::uniform_real_distribution<float> fraction(1, 2);
  std::uniform_int_distribution<int> exponent(-149, highest);
  std::uniform_int_distribution<int> of_ten(0, 9);
  Floats values(elements);
  int kind = 0;
  int same = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    if (i % kBlockElements == 0) {
      kind = of_ten(random);
      same = exponent(random);
    }
    const int power = kind < 2 ? exponent(random) : kind < 4 ? -149 + of_ten(random) * 4 : same;
    const float magnitude = kind == 9 ? 0 : std::ldexp(fraction(random), power);
    values[i] = of_ten(random) == 0 ? 0 : magnitude;
    if (of_ten(random) < 5) values[i] = -values[i];
  }
  return values;
}

Floats normal_numbers(std::size_t elements, float deviation, std::mt19937& random) {
  std::normal_distribution<float> normal(0, deviation);
  Floats values(elements);
  for (float& value : values) value = normal(random);
  return values;
}

Floats plain_difference(std::span<const float> values, std::span<const float> anchor) {
  Floats difference;
  for (std::size_t i = 0; i < values.size(); ++i) difference.push_back(values[i] - anchor[i]);
  return difference;
}

Bytes plain_encoded(Wire wire, std::span<const float> difference, const Draws& draws) {
  Bytes bytes;
  for (std::size_t i = 0; i < difference.size(); i += kBlockElements) {
    const std::span<const float> block = difference.subspan(i, kBlockElements);
    if (const int levels = levels_of(wire); levels != 0) {
      append_quanta(bytes, wire, scale_of(block, levels),
                    quanta(wire, block, draws, i / kBlockElements));
    } else {
      append_numbers(bytes, wire, block);
    }
  }
  return bytes;
}

Floats plain_rounded(Wire wire, std::span<const float> difference, const Draws& draws) {
  Floats values(difference.begin(), difference.end());
  for (float& value : values) {
    if (wire == Wire::kBf16) value = static_cast<float>(rounded(value, kBrain));
    if (wire == Wire::kFp16) value = static_cast<float>(rounded(value, kHalf));
  }
  if (levels_of(wire) == 0) return values;
  for (std::size_t i = 0; i < values.size(); i += kBlockElements) {
    const std::span<const float> block = difference.subspan(i, kBlockElements);
    const float scale = scale_of(block, levels_of(wire));
    const std::vector<int> q = quanta(wire, block, draws, i / kBlockElements);
    for (std::size_t j = 0; j < q.size(); ++j) values[i + j] = static_cast<float>(q[j]) * scale;
  }
  return values;
}

}  // namespace daso::test
