// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "daso/kernels/draws.h"

// The numbers that rounding at random draws, over a vector type V of base/simd: 32 bits for each
// element, a hash of the key and of the element's place, so that none depends on the one before.
namespace daso::kernels {

// 64 bits for a block: number first_block + block of splitmix64 (Steele, Lea and Flood, OOPSLA
// 2014) that begins at the key.
template <typename V>
std::uint64_t bits_of_block(const Draws& draws, std::size_t block) {
  std::uint64_t bits = draws.key + (draws.first_block + block + 1) * 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

// 32 bits for each lane's element of a block: two rounds of multiplying and folding, the constants
// those of lowbias32 (C. Wellons, public domain), with half of the block's bits before each.
template <typename V>
typename V::Words bits_of_elements(std::uint64_t block_bits, std::size_t element) {
  using Words = typename V::Words;
  const Words low = V::all_words(static_cast<std::uint32_t>(block_bits));
  const Words high = V::all_words(static_cast<std::uint32_t>(block_bits >> 32U));
  Words bits = V::xor_words(V::numbered(static_cast<std::uint32_t>(element)), low);
  bits = V::xor_words(bits, V::template shifted_right<16>(bits));
  bits = V::xor_words(V::multiply_words(bits, V::all_words(0x7feb352dU)), high);
  bits = V::xor_words(bits, V::template shifted_right<15>(bits));
  bits = V::multiply_words(bits, V::all_words(0x846ca68bU));
  return V::xor_words(bits, V::template shifted_right<16>(bits));
}

}  // namespace daso::kernels
