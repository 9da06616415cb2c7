// SPDX-License-Identifier: Apache-2.0
// Images as bytes become inputs.
#include "daso/cuda/launch.h"
#include "daso/kernels/place_pixels.h"

namespace daso::cuda {
namespace {

using kernels::kByteValues;
using kernels::kPlacementNumbers;
using kernels::PixelPlacement;
using kernels::Placing;

constexpr int kAcross = 32;           // threads beside each other in a row
constexpr int kDown = 8;              // rows that a group does at once
constexpr int kRows = 4 * kDown;      // and in all
constexpr int kMostGridRows = 65535;  // what CUDA allows in y
static_assert(kAcross * kDown == kByteValues, "each thread fetches one value");

// A group of threads does some rows of one plane; x counts the planes.
__global__ void __launch_bounds__(kByteValues) place_kernel(const Placing p) {
  __shared__ float values[kByteValues];
  const int channel = static_cast<int>(blockIdx.x % p.channels);
  const std::size_t image = blockIdx.x / p.channels;
  const int thread = static_cast<int>(threadIdx.y) * kAcross + static_cast<int>(threadIdx.x);
  values[thread] = p.values[channel * kByteValues + thread];
  __syncthreads();
  const std::int32_t* const numbers = p.placements + image * kPlacementNumbers;
  const PixelPlacement placement{numbers[0], numbers[1], numbers[2]};
  const std::int64_t plane = std::int64_t{p.height} * p.width * blockIdx.x;
  const std::byte* const from = p.bytes + plane;
  float* const to = p.inputs + plane;
  for (int top = static_cast<int>(blockIdx.y) * kRows; top < p.height;
       top += static_cast<int>(gridDim.y) * kRows) {
    const int end = min(top + kRows, p.height);
    for (int y = top + static_cast<int>(threadIdx.y); y < end; y += kDown) {
      for (int x = static_cast<int>(threadIdx.x); x < p.width; x += kAcross) {
        to[std::int64_t{y} * p.width + x] =
            kernels::placed_pixel(from, values, placement, p.height, p.width, y, x);
      }
    }
  }
}

}  // namespace

void place(const Placing& work, const Launch& launch) {
  if (work.images == 0 || work.height == 0 || work.width == 0) return;
  const int bands = (work.height + kRows - 1) / kRows;
  const dim3 grid(static_cast<unsigned>(work.images * static_cast<std::size_t>(work.channels)),
                  static_cast<unsigned>(bands < kMostGridRows ? bands : kMostGridRows));
  place_kernel<<<grid, dim3(kAcross, kDown), 0, launch.stream>>>(work);
}

}  // namespace daso::cuda
