// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "daso/kernels/host_device.h"

// How an image of bytes is laid into its batch: moved, then mirrored, with zeros coming in at the
// edge. This is the one definition for all processors. No device computes with the values: what a
// byte becomes stands in a table, which the host has made, so the bits are the same everywhere.
namespace daso::kernels {

inline constexpr int kByteValues = 256;

struct PixelPlacement {
  std::int32_t down;
  std::int32_t right;
  std::int32_t mirrored;  // or 0
};
inline constexpr int kPlacementNumbers = 3;

// What shows at (x, y) of a plane of height x width bytes. `values` are those of the channel.
DASO_ALWAYS_INLINE float placed_pixel(const std::byte* plane, const float* values,
                                      const PixelPlacement& placement, int height, int width, int y,
                                      int x) {
  const int row = y - placement.down;
  const int column = (placement.mirrored != 0 ? width - 1 - x : x) - placement.right;
  if (row < 0 || row >= height || column < 0 || column >= width) return 0.0F;
  return values[static_cast<unsigned char>(plane[std::int64_t{row} * width + column])];
}

}  // namespace daso::kernels
