// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/encode_loop.h"
#include "daso/kernels/format_list.h"
#include "daso/kernels/kernels.h"
#include "daso/kernels/random_bits.h"
#include "daso/kernels/wire_formats.h"

// The loops, over a vector type V of base/simd, and the table of them. All go block by block: what
// a block needs twice waits in an array of 1 KB, which the cache nearest to the core holds, so
// memory is read and written once.
namespace daso::kernels {

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions may not be compiled here.

template <typename V, typename F>
void decode_blocks(const Decoding& d) {
  for (std::size_t block = 0; block < d.blocks; ++block) {
    const typename F::Reader reader(d.encoded + block * F::kBlockBytes);
    float* values = d.values + block * kBlockElements;
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) V::store(values + i, reader.at(i));
  }
}

// sum = weight_0 * decoded_0 + weight_1 * decoded_1 + ... of one block, from left to right.
template <typename V, typename F>
void add_terms(const Averaging& a, std::size_t block, float* sum) {
  for (std::size_t n = 0; n < a.number_of_terms; ++n) {
    const typename F::Reader reader(a.terms[n].encoded + block * F::kBlockBytes);
    const typename V::Floats weight = V::all(a.terms[n].weight);
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      const typename V::Floats product = V::multiply(weight, reader.at(i));
      V::store(sum + i, n == 0 ? product : V::add(V::load(sum + i), product));
    }
  }
}

// sum = sum + residual of one block; the largest magnitude of it, as bits.
template <typename V>
std::uint32_t add_residual(const float* residual, float* sum) {
  typename V::Words absmax = V::no_words();
  for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
    typename V::Floats with_residual = V::load(sum + i);
    if (residual != nullptr) with_residual = V::add(with_residual, V::load(residual + i));
    absmax = V::larger_magnitude(absmax, with_residual);
    V::store(sum + i, with_residual);
  }
  return V::largest(absmax);
}

template <typename V, typename F>
bool average_blocks(const Averaging& a) {
  alignas(64) float sum[kBlockElements];
  for (std::size_t block = 0; block < a.blocks; ++block) {
    add_terms<V, F>(a, block, sum);
    float* residual = a.residual == nullptr ? nullptr : a.residual + block * kBlockElements;
    const std::uint32_t absmax = add_residual<V>(residual, sum);
    if (absmax > F::kLargest) return false;
    std::byte* back = a.back + block * F::kBlockBytes;
    F::encode_block(sum, absmax, bits_of_block<V>(a.draws, block), back);
    if (residual == nullptr) continue;
    const typename F::Reader reader(back);
    for (std::size_t i = 0; i < kBlockElements; i += V::kLanes) {
      V::store(residual + i, V::subtract(V::load(sum + i), reader.at(i)));
    }
  }
  return true;
}

template <typename V, typename F, bool kPaper>
void merge_blocks(const Merging& m) {
  const typename V::Floats local_weight = V::all(m.local_weight);
  const typename V::Floats peers = V::all(m.peers);
  const typename V::Floats all_weights = V::all(m.local_weight + m.peers);
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
        const typename V::Floats mean = V::subtract(V::add(sent, q_mean), q_own);
        const typename V::Floats both =
            V::add(V::multiply(local_weight, x), V::multiply(peers, mean));
        V::store(parameters, V::divide(both, all_weights));
      } else {
        V::store(parameters, V::add(x, V::subtract(q_mean, q_own)));
      }
      if (m.anchor != nullptr) {
        float* anchor = m.anchor + begin + i;
        V::store(anchor, V::add(V::load(anchor), q_mean));
      }
    }
  }
}

template <typename V>
void digest_rows(const Digestion& d) {
  constexpr std::size_t kVectors = kDigestLanes / V::kLanes;
  typename V::Words lanes[kVectors];
  for (std::size_t i = 0; i < kVectors; ++i) lanes[i] = V::load_words(d.lanes + i * V::kLanes);
  for (std::size_t row = 0; row < d.rows; ++row) {
    const float* values = d.values + row * kDigestLanes;
    for (std::size_t i = 0; i < kVectors; ++i) {
      lanes[i] = V::mix(lanes[i], V::load_words(values + i * V::kLanes));
    }
  }
  for (std::size_t i = 0; i < kVectors; ++i) V::store_words(d.lanes + i * V::kLanes, lanes[i]);
}

template <typename V, typename F>
constexpr WireKernels wire_kernels() {
  return {encode_blocks<V, F>, decode_blocks<V, F>, average_blocks<V, F>, merge_blocks<V, F, false>,
          merge_blocks<V, F, true>};
}

template <typename V, typename... F>
constexpr Kernels kernels_over(FormatList<F...> /*formats*/) {
  static_assert(sizeof...(F) == kWires);
  return {{wire_kernels<V, F>()...}, digest_rows<V>};
}

template <typename V>
constexpr Kernels make_kernels() {
  return kernels_over<V>(Formats<V>{});
}

// NOLINTEND(modernize-avoid-c-arrays)

}  // namespace daso::kernels
