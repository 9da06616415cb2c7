// SPDX-License-Identifier: Apache-2.0
#include "daso/data/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/rows_kernel.h"

namespace daso {
namespace {

constexpr float kStep = 1.0F / 255.0F;  // of a byte

// What each pixel of one side of the square is made of: `most` pixels of the picture from `first`
// on, weighted. A weight of 0 stands where it needs fewer.
struct Taps {
  std::vector<int> first;
  std::vector<float> weights;
  int most = 0;

  const float* of(std::size_t i) const {
    return weights.data() + i * static_cast<std::size_t>(most);
  }
};

// One side of a cut, in pixels of the picture's image.
struct Side {
  double from = 0;
  double length = 0;
  int first = 0;  // pixels first ... end - 1 may be used
  int end = 0;
};

Taps taps_of(const Side& side, int size) {
  const double step = side.length / size;
  const double support = std::max(1.0, step);
  // No more than there are, so that a row of taps never leaves the picture.
  const int most = std::min(static_cast<int>(std::ceil(2 * support)), side.end - side.first);
  DASO_ASSERT(most >= 1);
  Taps taps{.most = most};
  taps.first.reserve(static_cast<std::size_t>(size));
  taps.weights.reserve(static_cast<std::size_t>(size) * static_cast<std::size_t>(most));
  std::vector<double> weights;
  for (int i = 0; i < size; ++i) {
    const double centre = side.from + (i + 0.5) * step;
    const int lowest = static_cast<int>(std::floor(centre - support + 0.5));
    const int first = std::clamp(lowest, side.first, side.end - most);
    weights.clear();
    double sum = 0;
    for (int pixel = first; pixel < first + most; ++pixel) {
      weights.push_back(std::max(0.0, 1 - std::abs(pixel + 0.5 - centre) / support));
      sum += weights.back();
    }
    DASO_ASSERT(sum > 0);
    taps.first.push_back(first);
    for (const double weight : weights) taps.weights.push_back(static_cast<float>(weight / sum));
  }
  return taps;
}

// The side of the cut that lies in a picture of `first` ... `end` - 1, all shrunk.
Side shrunk(double from, double length, std::pair<int, int> within, int shrink,
            std::pair<int, int> picture) {
  return {.from = from / shrink,
          .length = length / shrink,
          .first = std::max(within.first / shrink, picture.first),
          .end = std::min((within.second + shrink - 1) / shrink, picture.second)};
}

// A pixel and the first colour of the next, which does not count.
using Pixel = float __attribute__((vector_size(4 * sizeof(float))));

Pixel pixel_at(const float* from) {
  Pixel pixel;
  std::memcpy(&pixel, from, sizeof pixel);
  return pixel;
}

// Taps for rows of pixels: offsets instead of places, and each weight for all colours.
struct PixelTaps {
  std::vector<std::ptrdiff_t> offsets;
  std::vector<Pixel> weights;
  std::size_t most = 0;

  // Of a row whose first pixel is `begin`.
  PixelTaps(const Taps& taps, int begin) : most(static_cast<std::size_t>(taps.most)) {
    for (const int first : taps.first) {
      offsets.push_back(static_cast<std::ptrdiff_t>(first - begin) * kColours);
    }
    for (const float weight : taps.weights) weights.push_back(Pixel{} + weight);
  }

  // kTaps is `most` where that is known to the compiler, which then needs no loop; else 0.
  template <std::size_t kTaps>
  Pixel at(const float* row, std::size_t x) const {
    const std::size_t taps = kTaps == 0 ? most : kTaps;
    const float* from = row + offsets[x];
    const Pixel* const weight = weights.data() + x * taps;
    Pixel sum = weight[0] * pixel_at(from);
    for (std::size_t i = 1; i < taps; ++i) {
      from += kColours;
      sum += weight[i] * pixel_at(from);
    }
    return sum;
  }
};

void store(const Pixel& four, float* to) {
  const Pixel one = Pixel{} + 1.0F;
  const Pixel scaled = four * kStep;
  const Pixel within = scaled < one ? scaled : one;
  std::memcpy(to, &within, sizeof within);
}

// One row of the square. Four pixels at a time, which are then turned into four of each colour; the
// last four may have been among those before.
template <std::size_t kTaps>
void resample_row(const float* row, const PixelTaps& across, float* red, std::size_t plane) {
  const std::size_t size = across.offsets.size();
  for (std::size_t next = 0; next < size; next += 4) {
    const std::size_t x = std::min(next, size - 4);
    const Pixel a = across.at<kTaps>(row, x);
    const Pixel b = across.at<kTaps>(row, x + 1);
    const Pixel c = across.at<kTaps>(row, x + 2);
    const Pixel d = across.at<kTaps>(row, x + 3);
    const Pixel ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const Pixel cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    store(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), red + x);
    store(__builtin_shufflevector(ab, cd, 2, 3, 6, 7), red + x + plane);
    const Pixel blue_ab = __builtin_shufflevector(a, b, 2, 6, 2, 6);
    const Pixel blue_cd = __builtin_shufflevector(c, d, 2, 6, 2, 6);
    store(__builtin_shufflevector(blue_ab, blue_cd, 0, 1, 4, 5), red + x + 2 * plane);
  }
}

// Two where pixels become more, three where they become a little fewer.
auto row_function(std::size_t taps) {
  return taps == 2 ? resample_row<2> : taps == 3 ? resample_row<3> : resample_row<0>;
}

}  // namespace

// Rows first: they are long and lie side by side, so that is where the processor's vectors help.
void resample(const Picture& picture, const Cut& cut, int size, std::span<float> square) {
  const std::size_t plane = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  DASO_ASSERT(square.size() == plane * kColours);
  const Rectangle& part = picture.part;
  const Taps across = taps_of(shrunk(cut.left, cut.width, {cut.within.left, cut.within.right()},
                                     picture.shrunk, {part.left, part.right()}),
                              size);
  const Taps down = taps_of(shrunk(cut.top, cut.height, {cut.within.top, cut.within.bottom()},
                                   picture.shrunk, {part.top, part.bottom()}),
                            size);
  const int begin = across.first.front();
  const int end = across.first.back() + across.most;
  const auto values = static_cast<std::size_t>(end - begin) * kColours;
  std::vector<float> row(values + 1);  // the last pixel is read with one behind it
  const PixelTaps pixels(across, begin);
  const auto by_taps = row_function(pixels.most);
  const std::ptrdiff_t left = static_cast<std::ptrdiff_t>(begin - part.left) * kColours;
  for (std::size_t y = 0; y < down.first.size(); ++y) {
    add_rows(picture.row(down.first[y]) + left, static_cast<std::size_t>(part.width) * kColours,
             {down.of(y), static_cast<std::size_t>(down.most)}, std::span(row).first(values));
    by_taps(row.data(), pixels, square.data() + y * static_cast<std::size_t>(size), plane);
  }
}

}  // namespace daso
