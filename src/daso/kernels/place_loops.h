// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/kernels/kernels.h"
#include "daso/kernels/place_pixels.h"

namespace daso::kernels {

// Pixel by pixel, since no CPU is in a hurry here: it trains with inputs that its loader has made
// (place_image() of data/batch.h). V tells the instruction sets' copies apart.
template <typename V>
void place_loop(const Placing& p) {
  const std::ptrdiff_t plane = std::ptrdiff_t{p.height} * p.width;
  const std::byte* from = p.bytes;
  float* to = p.inputs;
  for (std::size_t image = 0; image < p.images; ++image) {
    const std::int32_t* const numbers = p.placements + image * kPlacementNumbers;
    const PixelPlacement placement{numbers[0], numbers[1], numbers[2]};
    for (int channel = 0; channel < p.channels; ++channel, from += plane) {
      const float* const values = p.values + std::ptrdiff_t{channel} * kByteValues;
      for (int y = 0; y < p.height; ++y) {
        for (int x = 0; x < p.width; ++x) {
          *to++ = placed_pixel(from, values, placement, p.height, p.width, y, x);
        }
      }
    }
  }
}

}  // namespace daso::kernels
