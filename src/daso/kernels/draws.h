// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace daso {

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
