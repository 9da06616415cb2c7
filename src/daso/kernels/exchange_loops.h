// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/exchange_steps.h"
#include "daso/kernels/kernels.h"
#include "daso/kernels/mean_loops.h"
#include "daso/kernels/packed_formats.h"

// The loops of an exchange, over a vector type V of simd/ and a wire format F. All go block by
// block: what a block needs twice waits in an array of 1 KB, which the cache nearest to the core
// holds, so memory is read and written once.
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
void encode_blocks(const Encoding& e) {
  const bool carried =
      writes_past_caches<F>(e) ? encode_runs<V, F, true>(e) : encode_runs<V, F, false>(e);
  if (!carried) *e.overflow = 1;
}

template <typename V, typename F>
void decode_blocks(const Decoding& d) {
  for (std::size_t block = 0; block < d.blocks; ++block) {
    const typename F::Reader reader(d.encoded + block * F::kBlockBytes);
    float* values = d.values + block * kBlockElements;
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) V::store(values + i, reader.at(i));
  }
}

template <typename V, typename F>
void average_blocks(const Averaging& a) {
  alignas(64) float sum[kBlockElements];
  for (std::size_t block = 0; block < a.blocks; ++block) {
    for (std::size_t n = 0; n < a.number_of_terms; ++n) {
      const EncodedTerm& term = a.terms[n];
      add_term<V, F>(term.encoded + block * F::kBlockBytes, term.weight, n == 0, sum);
    }
    float* residual = a.residual + block * kBlockElements;
    const std::uint32_t absmax = add_residual<V>(residual, sum);
    if (absmax > F::kLargest) {
      *a.overflow = 1;
      return;
    }
    std::byte* back = a.back + block * F::kBlockBytes;
    F::encode_block(sum, absmax, bits_of_block<V>(a.draws, block), back);
    const typename F::Reader reader(back);
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      V::store(residual + i, V::subtract(V::load(sum + i), reader.at(i)));
    }
  }
}

template <typename V, typename F, bool kPaper>
void merge_blocks(const Merging& m) {
  const PaperWeights<V> weights = paper_weights<V>(m.local_weight, m.peers);
  for (std::size_t block = 0; block < m.blocks; ++block) {
    const typename F::Reader own(m.own + block * F::kBlockBytes);
    const typename F::Reader back(m.back + block * F::kBlockBytes);
    const std::size_t begin = block * kBlockElements;
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      float* parameters = m.parameters + begin + i;
      const typename V::Floats q_own = own.at(i);
      const typename V::Floats q_mean = back.at(i);
      const typename V::Floats x = V::load(parameters);
      if constexpr (kPaper) {
        const typename V::Floats sent = V::load(m.sent + begin + i);
        V::store(parameters, merged_paper<V>(weights, x, sent, q_mean, q_own));
      } else {
        V::store(parameters, merged_corrected<V>(x, q_mean, q_own));
      }
      if (m.anchor != nullptr) {
        float* anchor = m.anchor + begin + i;
        V::store(anchor, V::add(V::load(anchor), q_mean));
      }
    }
  }
}

// The sum over all elements of (mean - sent)^2. In fp32 within a block, as kSums sums that run side
// by side; in double from block to block.
template <typename V, typename F>
void squared_distance(const Distance& d) {
  constexpr std::size_t kSums = 16;
  static_assert(kSums % V::kLanes == 0);
  double total = 0;
  for (std::size_t block = 0; block < d.blocks; ++block) {
    const typename F::Reader own(d.own + block * F::kBlockBytes);
    const typename F::Reader back(d.back + block * F::kBlockBytes);
    alignas(64) float sums[kSums] = {};
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      const typename V::Floats difference = V::subtract(back.at(i), own.at(i));
      float* sum = sums + i % kSums;
      V::store(sum, V::add(V::load(sum), V::multiply(difference, difference)));
    }
    double of_block = 0;
    for (const float sum : sums) of_block += static_cast<double>(sum);
    total += of_block;
  }
  *d.sum = total;
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace daso::kernels
