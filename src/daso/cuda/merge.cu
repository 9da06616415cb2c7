// SPDX-License-Identifier: Apache-2.0
// What everybody does with an answer. A warp does a block; all that it reads is on its way before
// the first of it is needed.
#include "daso/cuda/wire_block.cuh"
#include "daso/kernels/exchange_steps.h"

namespace daso::cuda {
namespace {

template <typename F, bool kPaper>
__global__ void __launch_bounds__(kThreads) merge_blocks(const kernels::Merging m) {
  const WarpPlace warp = warp_place();
  const kernels::PaperWeights<One> weights = kernels::paper_weights<One>(m.local_weight, m.peers);
  for (std::size_t block = warp.first; block < m.blocks; block += warp.stride) {
    const std::size_t begin = block * kBlockElements;
    const LaneCodes<F> own = load_codes<F>(m.own + block * F::kBlockBytes, warp);
    const LaneCodes<F> back = load_codes<F>(m.back + block * F::kBlockBytes, warp);
    float x[kLaneElements];
    float anchor[kLaneElements];
    float sent[kLaneElements];
    load_lane(m.parameters + begin, warp.lane, x);
    if (m.anchor != nullptr) load_lane(m.anchor + begin, warp.lane, anchor);
    if constexpr (kPaper) load_lane(m.sent + begin, warp.lane, sent);
    float q_own[kLaneElements];
    float q_mean[kLaneElements];
    kernels::decode_lane<F>(own, q_own);
    kernels::decode_lane<F>(back, q_mean);
    for (unsigned i = 0; i < kLaneElements; ++i) {
      if constexpr (kPaper) {
        x[i] = kernels::merged_paper<One>(weights, x[i], sent[i], q_mean[i], q_own[i]);
      } else {
        x[i] = kernels::merged_corrected<One>(x[i], q_mean[i], q_own[i]);
      }
    }
    store_lane(m.parameters + begin, warp.lane, x);
    if (m.anchor != nullptr) {
      for (unsigned i = 0; i < kLaneElements; ++i) anchor[i] = One::add(anchor[i], q_mean[i]);
      store_lane(m.anchor + begin, warp.lane, anchor);
    }
  }
}

template <bool kPaper>
void merge(Wire wire, const kernels::Merging& merging, const Launch& launch) {
  with_format(wire, [&](auto kind) {
    merge_blocks<typename decltype(kind)::Format, kPaper>
        <<<groups_for(merging.blocks, kWarps, launch), kThreads, 0, launch.stream>>>(merging);
  });
}

}  // namespace

void merge_corrected(Wire wire, const kernels::Merging& merging, const Launch& launch) {
  merge<false>(wire, merging, launch);
}

void merge_paper(Wire wire, const kernels::Merging& merging, const Launch& launch) {
  merge<true>(wire, merging, launch);
}

}  // namespace daso::cuda
