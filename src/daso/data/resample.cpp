// SPDX-License-Identifier: Apache-2.0
#include "daso/data/resample.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "daso/base/error.h"

namespace daso {
namespace {

constexpr float kStep = 1.0F / 255.0F;  // of a byte

// What each pixel of one side of the square is made of: `most` pixels of the picture from `first`
// on, weighted. A weight of 0 stands where it needs fewer.
struct Taps {
  std::vector<int> first;
  std::vector<float> weights;
  int most = 0;

  const float* of(int i) const { return weights.data() + static_cast<std::int64_t>(i) * most; }
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
  const int most = std::min(static_cast<int>(std::ceil(2 * support)) + 1, side.end - side.first);
  DASO_ASSERT(most >= 1);
  Taps taps{.most = most};
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

// The weighted sum of rows of bytes.
void add_rows(const Picture& picture, int first, const float* weights, int rows, int from_pixel,
              std::span<float> sum) {
  const std::int64_t offset = static_cast<std::int64_t>(from_pixel - picture.part.left) * kColours;
  std::ranges::fill(sum, 0.0F);
  float* const to = sum.data();
  const std::size_t count = sum.size();
  for (int i = 0; i < rows; ++i) {
    const float weight = weights[i];
    if (weight == 0.0F) continue;
    const std::uint8_t* const row = picture.row(first + i) + offset;
    for (std::size_t k = 0; k < count; ++k) to[k] += weight * static_cast<float>(row[k]);
  }
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
  std::vector<float> row(static_cast<std::size_t>(end - begin) * kColours);
  for (int y = 0; y < size; ++y) {
    const auto at = static_cast<std::size_t>(y);
    add_rows(picture, down.first[at], down.of(y), down.most, begin, row);
    float* const red = square.data() + at * static_cast<std::size_t>(size);
    float* const green = red + plane;
    float* const blue = green + plane;
    for (int x = 0; x < size; ++x) {
      const float* const weights = across.of(x);
      const float* from =
          row.data() +
          static_cast<std::int64_t>(across.first[static_cast<std::size_t>(x)] - begin) * kColours;
      float r = 0;
      float g = 0;
      float b = 0;
      for (int i = 0; i < across.most; ++i, from += kColours) {
        r += weights[i] * from[0];
        g += weights[i] * from[1];
        b += weights[i] * from[2];
      }
      red[x] = std::min(r * kStep, 1.0F);
      green[x] = std::min(g * kStep, 1.0F);
      blue[x] = std::min(b * kStep, 1.0F);
    }
  }
}

}  // namespace daso
