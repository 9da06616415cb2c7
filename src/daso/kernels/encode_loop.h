// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/kernels.h"
#include "daso/kernels/random_bits.h"
#include "daso/kernels/wire_formats.h"

// The loop of encode(), over a vector type V of base/simd and a format of wire_formats.h.
namespace daso::kernels {

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions may not be compiled here.

// Asks for what lies one block further on, into the second cache. Past the end it does nothing.
inline __attribute__((always_inline)) void prefetch_next_block(const float* here) {
  __builtin_prefetch(here + kBlockElements, /*write=*/0, /*second cache=*/2);
}

// A large result is written past the caches, where its blocks fill whole lines of them: else every
// line would be read before it is written.
constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kLargeBytes = 1 << 20;

template <typename F>
bool writes_past_caches(const Encoding& e) {
  return F::kBlockBytes % kLineBytes == 0 && e.blocks * F::kBlockBytes >= kLargeBytes &&
         reinterpret_cast<std::uintptr_t>(e.encoded) % kLineBytes == 0;
}

template <typename V, typename F, bool kStream>
bool encode_one(const Encoding& e, std::size_t block) {
  alignas(64) float difference[kBlockElements];
  const float* values = e.values + block * kBlockElements;
  const float* anchor = e.anchor + block * kBlockElements;
  typename V::Words absmax = V::no_words();
  for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
    prefetch_next_block(values + i);
    prefetch_next_block(anchor + i);
    const typename V::Floats d = V::subtract(V::load(values + i), V::load(anchor + i));
    absmax = V::larger_magnitude(absmax, d);
    V::store(difference + i, d);
  }
  const std::uint32_t largest = V::largest(absmax);
  if (largest > F::kLargest) return false;
  const std::uint64_t random = bits_of_block<V>(e.draws, block);
  std::byte* encoded = e.encoded + block * F::kBlockBytes;
  if constexpr (kStream) {
    alignas(kLineBytes) std::byte staged[F::kBlockBytes];
    F::encode_block(difference, largest, random, staged);
    V::stream(encoded, staged, F::kBlockBytes);
  } else {
    F::encode_block(difference, largest, random, encoded);
  }
  return true;
}

// Several runs of blocks at once, a block of each in turn. This loop mostly reads, and one core
// that reads two runs of addresses (values, anchor) is slower than one that copies: the processor
// looks ahead on each run by itself, but not beyond a page of 4 KB. Three times two runs keep
// enough reads on their way, a third faster; from ten on they push each other out of the nearest
// cache.
template <typename V, typename F, bool kStream>
bool encode_runs(const Encoding& e) {
  constexpr std::size_t kRuns = 3;
  const std::size_t length = e.blocks / kRuns;
  for (std::size_t i = 0; i < length; ++i) {
    for (std::size_t run = 0; run < kRuns; ++run) {
      if (!encode_one<V, F, kStream>(e, run * length + i)) return false;
    }
  }
  for (std::size_t block = kRuns * length; block < e.blocks; ++block) {
    if (!encode_one<V, F, kStream>(e, block)) return false;
  }
  if constexpr (kStream) V::fence();
  return true;
}

template <typename V, typename F>
bool encode_blocks(const Encoding& e) {
  return writes_past_caches<F>(e) ? encode_runs<V, F, true>(e) : encode_runs<V, F, false>(e);
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace daso::kernels
