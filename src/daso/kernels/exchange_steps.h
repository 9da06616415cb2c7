// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/host_device.h"

// What merge.h and mean.h do with one vector V of elements, once it is decoded: of simd/, or of a
// GPU's thread. The one definition of their arithmetic.
namespace daso::kernels {

// The next term of a sum. The product is rounded by itself.
template <typename V>
DASO_ALWAYS_INLINE typename V::Floats with_term(typename V::Floats sum, bool first,
                                                typename V::Floats weight,
                                                typename V::Floats value) {
  const typename V::Floats product = V::multiply(weight, value);
  return first ? product : V::add(sum, product);
}

template <typename V>
DASO_ALWAYS_INLINE typename V::Floats merged_corrected(typename V::Floats x,
                                                       typename V::Floats q_mean,
                                                       typename V::Floats q_own) {
  return V::add(x, V::subtract(q_mean, q_own));
}

// `local_weight` is 2 * staleness, and `all_weights` the sum of it and of `peers`.
template <typename V>
struct PaperWeights {
  typename V::Floats local_weight;
  typename V::Floats peers;
  typename V::Floats all_weights;
};

template <typename V>
DASO_ALWAYS_INLINE PaperWeights<V> paper_weights(float local_weight, float peers) {
  return {V::all(local_weight), V::all(peers), V::all(local_weight + peers)};
}

template <typename V>
DASO_ALWAYS_INLINE typename V::Floats merged_paper(const PaperWeights<V>& weights,
                                                   typename V::Floats x, typename V::Floats sent,
                                                   typename V::Floats q_mean,
                                                   typename V::Floats q_own) {
  const typename V::Floats mean = V::subtract(V::add(sent, q_mean), q_own);
  const typename V::Floats both =
      V::add(V::multiply(weights.local_weight, x), V::multiply(weights.peers, mean));
  return V::divide(both, weights.all_weights);
}

}  // namespace daso::kernels
