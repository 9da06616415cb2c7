// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

// Weights of convolutions between the order in which the flat model has them, channel by channel,
// and that in which cuDNN is fastest, pixel by pixel with all channels of each (channels_last);
// from one type to another on the way. All of a network in one launch: LibTorch's copies are one
// each, and read 9 lines of memory for what fills one.
namespace daso::cuda {

// One weight [outputs, channels, pixels]. The part of an output lies without gaps in either order.
struct Reordered {
  const void* from = nullptr;
  void* to = nullptr;
  std::uint32_t outputs = 0;
  std::uint32_t channels = 0;
  std::uint32_t pixels = 0;
};

inline constexpr int kMostReordered = 64;  // in one launch
inline constexpr std::uint32_t kMostOfOutput =
    12288;  // elements: they wait in 48 KB of shared memory

enum class Number { kFloat, kBf16, kFp16 };

// To channels_last, or from it.
void reorder(const Reordered* weights, int number, Number from, Number to, bool to_last,
             cudaStream_t stream);

}  // namespace daso::cuda
