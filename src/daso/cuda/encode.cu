// SPDX-License-Identifier: Apache-2.0
// What a node sends, and what others read of it. A warp does a block.
#include "daso/cuda/wire_block.cuh"

namespace daso::cuda {
namespace {

template <typename F>
__global__ void __launch_bounds__(kThreads) encode_blocks(const kernels::Encoding e) {
  const WarpPlace warp = warp_place();
  for (std::size_t block = warp.first; block < e.blocks; block += warp.stride) {
    const std::size_t begin = block * kBlockElements;
    float difference[kLaneElements];
    float anchor[kLaneElements];
    load_lane(e.values + begin, warp.lane, difference);
    load_lane(e.anchor + begin, warp.lane, anchor);
    for (unsigned i = 0; i < kLaneElements; ++i) {
      difference[i] = One::subtract(difference[i], anchor[i]);
    }
    const std::uint32_t absmax = absmax_of_warp(difference);
    if (absmax > F::kLargest) {
      if (warp.lane == 0) *e.overflow = 1;
      continue;
    }
    const std::uint64_t random = kernels::bits_of_block<One>(e.draws, block);
    store_codes<F>(e.encoded + block * F::kBlockBytes, warp,
                   kernels::encode_lane<F>(difference, absmax, random, warp.lane));
  }
}

template <typename F>
__global__ void __launch_bounds__(kThreads) decode_blocks(const kernels::Decoding d) {
  const WarpPlace warp = warp_place();
  for (std::size_t block = warp.first; block < d.blocks; block += warp.stride) {
    float values[kLaneElements];
    kernels::decode_lane<F>(load_codes<F>(d.encoded + block * F::kBlockBytes, warp), values);
    store_lane(d.values + block * kBlockElements, warp.lane, values);
  }
}

}  // namespace

void encode(Wire wire, const kernels::Encoding& encoding, const Launch& launch) {
  with_format(wire, [&](auto kind) {
    encode_blocks<typename decltype(kind)::Format>
        <<<groups_for(encoding.blocks, kWarps, launch), kThreads, 0, launch.stream>>>(encoding);
  });
}

void decode(Wire wire, const kernels::Decoding& decoding, const Launch& launch) {
  with_format(wire, [&](auto kind) {
    decode_blocks<typename decltype(kind)::Format>
        <<<groups_for(decoding.blocks, kWarps, launch), kThreads, 0, launch.stream>>>(decoding);
  });
}

}  // namespace daso::cuda
