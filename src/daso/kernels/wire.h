// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What a difference becomes between nodes. A segment is a whole number of blocks of 256 elements;
// its encoded form is the encoded blocks one after the other, so a slice that is cut between blocks
// is contiguous there, too:
//   fp32   256 x 4 bytes, the values themselves
//   bf16   256 x 2 bytes, rounded to nearest even
//   fp16   256 x 2 bytes, rounded to nearest even
//   int8   the block's scale (fp32), then 256 x 1 byte q: 260 bytes, with
//            scale = absmax / 127, q = round_half_even(value / scale), clamped to -127 ... 127;
//            a scale below 2^-126 is sent as 0, and so are the block's q
//   int4   the same with scale = absmax / 7 and q in -7 ... 7, sent as q + 7 in 4 bits, the first
//            of two elements in a byte's low half: 132 bytes
//   qsgdB  QSGD (Alistarh et al., NeurIPS 2017) with B = 1 ... 8 bits for an element: scale =
//            absmax / s with s = 2^(B-1) - 1 levels of each sign; value / scale goes to one of the
//            two whole numbers q next to it, up with the probability of what it lies above the
//            lower one, so that q * scale is value on the average; sent as q + s, the first
//            element in the lowest bits: 4 + 32 B bytes. One bit has no level 0: s = 1, and q is
//            1 with probability (1 + value / scale) / 2, else -1, sent as 1 and 0. Blocks with
//            their largest magnitude, in place of the norm of the whole, are the paper's buckets
//            and what it takes in practice
// All in the machine's byte order, which is that of all ranks. An encoded segment may begin at any
// address. merge.h encodes and decodes.
namespace daso {

enum class Wire : std::uint8_t {
  kFp32,
  kBf16,
  kFp16,
  kInt8,
  kInt4,
  kQsgd1,
  kQsgd2,
  kQsgd3,
  kQsgd4,
  kQsgd5,
  kQsgd6,
  kQsgd7,
  kQsgd8
};
inline constexpr std::size_t kWires = 13;
inline constexpr std::size_t kBlockElements = 256;

std::string_view name_of(Wire wire);
std::vector<std::string> wire_names();  // of all, what --wire takes
// None if no wire has this name.
std::optional<Wire> find_wire(std::string_view name);

// Bits of an element on a wire that rounds at random, else 0.
constexpr int qsgd_bits(Wire wire) {
  return wire < Wire::kQsgd1 ? 0 : static_cast<int>(wire) - static_cast<int>(Wire::kQsgd1) + 1;
}

// `elements` is a multiple of kBlockElements.
std::size_t encoded_bytes(Wire wire, std::size_t elements);

// The largest magnitude that it carries: a larger one is not finite on this wire.
float largest_on(Wire wire);

// What a wire that rounds at random draws from; others ignore it. A draw depends on the key and on
// the element's place in the flat model alone: not on time or threads, not on the instruction set,
// and not on how the model is cut into slices, pieces and segments.
struct Draws {
  std::uint64_t key = 0;          // of one sender in one exchange
  std::uint64_t first_block = 0;  // where the segment begins in the flat model, in blocks
};

// The sender of the mean, whoever owns a segment of it. Other senders are nodes, by their number.
inline constexpr std::int64_t kMeanSender = -1;

// In an exchange every sender has draws of its own: what the nodes' rounding leaves out is then
// independent, and shrinks in their mean.
std::uint64_t draw_key(std::uint64_t seed, std::int64_t exchange, std::int64_t sender);

}  // namespace daso
