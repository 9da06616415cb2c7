// SPDX-License-Identifier: Apache-2.0
#include "daso/data/resample.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/portable_math.h"
#include "daso/kernels/rows.h"

namespace daso {
namespace {

constexpr double kLeastArea = 0.08;
constexpr double kLeastRatio = 3.0 / 4.0;
constexpr double kMostRatio = 4.0 / 3.0;
constexpr int kTries = 10;
constexpr int kResized = 256;  // the shorter side, of which
constexpr int kKept = 224;     // so much is kept

// Half to even, as the definitions have it.
int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

// The largest crop in the centre whose ratio is allowed.
Rectangle centre_crop(int width, int height) {
  const double ratio = static_cast<double>(width) / height;
  Rectangle crop{.width = width, .height = height};
  if (ratio < kLeastRatio) crop.height = rounded(width / kLeastRatio);
  if (ratio > kMostRatio) crop.width = rounded(height * kMostRatio);
  crop.left = (width - crop.width) / 2;
  crop.top = (height - crop.height) / 2;
  return crop;
}

struct Footprint {
  int first = 0;
  int end = 0;
};

// The pixels of first ... end - 1 that have a say in `size` pixels over `length` from `from` on.
Footprint reach(double from, double length, int size, int first, int end) {
  const double support = std::max(1.0, length / size) + 1;  // and what rounding may add
  return {std::max(first, static_cast<int>(std::floor(from - support))),
          std::min(end, static_cast<int>(std::ceil(from + length + support)))};
}

}  // namespace

Rectangle draw_crop(int width, int height, RandomStream random) {
  const double area = static_cast<double>(width) * height;
  for (int i = 0; i < kTries; ++i) {
    const double wanted = area * (kLeastArea + (1 - kLeastArea) * random.fraction());
    // Evenly between the logarithms of the two, without std::log and std::exp, whose last bits may
    // differ from machine to machine.
    const double ratio = kLeastRatio * real_power(kMostRatio / kLeastRatio, random.fraction());
    const int w = rounded(std::sqrt(wanted * ratio));
    const int h = rounded(std::sqrt(wanted / ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const auto top = static_cast<int>(random.below(static_cast<std::uint64_t>(height - h) + 1));
    const auto left = static_cast<int>(random.below(static_cast<std::uint64_t>(width - w) + 1));
    return {.left = left, .top = top, .width = w, .height = h};
  }
  return centre_crop(width, height);
}

ImageCut cut_of(const Rectangle& crop) {
  return {.left = static_cast<double>(crop.left),
          .top = static_cast<double>(crop.top),
          .width = static_cast<double>(crop.width),
          .height = static_cast<double>(crop.height),
          .within = crop};
}

ImageCut draw_cut(int width, int height, RandomStream random) {
  const bool mirrored = random.below(2) == 1;
  ImageCut cut = cut_of(draw_crop(width, height, random));
  cut.mirrored = mirrored;
  return cut;
}

int resized_side(int size) { return rounded(static_cast<double>(size) * kResized / kKept); }

ImageCut centre_cut(int width, int height, int size) {
  const int shorter = resized_side(size);
  // As the image would be after resizing, and where the square lies in that.
  const int least = std::min(width, height);
  const auto resized = [&](int side) {
    return side == least ? shorter
                         : static_cast<int>(static_cast<std::int64_t>(side) * shorter / least);
  };
  const double across = static_cast<double>(width) / resized(width);
  const double down = static_cast<double>(height) / resized(height);
  return {.left = rounded((resized(width) - size) / 2.0) * across,
          .top = rounded((resized(height) - size) / 2.0) * down,
          .width = size * across,
          .height = size * down,
          .within = {.width = width, .height = height}};
}

int shrink_for(const ImageCut& cut, int size) {
  for (const int shrink : {8, 4, 2}) {
    if (std::min(cut.width, cut.height) >= static_cast<double>(shrink) * size) return shrink;
  }
  return 1;
}

Rectangle reach_of(const ImageCut& cut, int size) {
  const Rectangle& within = cut.within;
  const Footprint across = reach(cut.left, cut.width, size, within.left, within.right());
  const Footprint down = reach(cut.top, cut.height, size, within.top, within.bottom());
  return {.left = across.first,
          .top = down.first,
          .width = across.end - across.first,
          .height = down.end - down.first};
}

namespace {

constexpr double kStep = 1.0 / 255;  // of a byte

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

// The weights of each add up to `sum_of_weights`.
Taps taps_of(const Side& side, int size, double sum_of_weights) {
  const double step = side.length / size;
  const double support = std::max(1.0, step);
  // No more than there are, so that a row of taps never leaves the picture.
  const int most = std::min(static_cast<int>(std::ceil(2 * support)), side.end - side.first);
  DASO_ASSERT(most >= 1);
  const auto number = static_cast<std::size_t>(most);
  Taps taps{.first = std::vector<int>(static_cast<std::size_t>(size)),
            .weights = std::vector<float>(static_cast<std::size_t>(size) * number),
            .most = most};
  std::vector<double> weights(number);
  for (std::size_t i = 0; i < taps.first.size(); ++i) {
    const double centre = side.from + (static_cast<double>(i) + 0.5) * step;
    const int lowest = static_cast<int>(std::floor(centre - support + 0.5));
    const int first = std::clamp(lowest, side.first, side.end - most);
    double sum = 0;
    for (std::size_t tap = 0; tap < number; ++tap) {
      const double distance = std::abs(first + static_cast<double>(tap) + 0.5 - centre);
      weights[tap] = std::max(0.0, support - distance);
      sum += weights[tap];
    }
    DASO_ASSERT(sum > 0);
    taps.first[i] = first;
    const double scale = sum_of_weights / sum;
    for (std::size_t tap = 0; tap < number; ++tap) {
      taps.weights[i * number + tap] = static_cast<float>(weights[tap] * scale);
    }
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

// Taps for a row of pixels that begins with pixel `begin` of the picture. A mirrored one has the
// last first.
PixelTaps pixel_taps(const Taps& taps, int begin, bool mirrored) {
  const std::size_t size = taps.first.size();
  PixelTaps pixels{.taps = static_cast<std::size_t>(taps.most)};
  pixels.offsets.reserve(size);
  pixels.weights.reserve(size * pixels.taps);
  const auto source = [&](std::size_t x) { return mirrored ? size - 1 - x : x; };
  for (std::size_t x = 0; x < size; ++x) {
    pixels.offsets.push_back(taps.first[source(x)] - begin);
  }
  for (std::size_t i = 0; i < pixels.taps; ++i) {
    for (std::size_t x = 0; x < size; ++x) pixels.weights.push_back(taps.of(source(x))[i]);
  }
  return pixels;
}

}  // namespace

// Rows first: they are long and lie side by side, so that is where the processor's vectors help.
void resample(const Picture& picture, const ImageCut& cut, int size, std::span<float> square,
              const ColourScale& scale) {
  const std::size_t plane = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  DASO_ASSERT(square.size() == plane * kColours);
  const Rectangle& part = picture.part;
  const Taps across = taps_of(shrunk(cut.left, cut.width, {cut.within.left, cut.within.right()},
                                     picture.shrunk, {part.left, part.right()}),
                              size, 1);
  const Taps down = taps_of(shrunk(cut.top, cut.height, {cut.within.top, cut.within.bottom()},
                                   picture.shrunk, {part.top, part.bottom()}),
                            size, kStep);
  const int begin = across.first.front();
  const int end = across.first.back() + across.most;
  const auto row_pixels = static_cast<std::size_t>(end - begin);
  const std::size_t row_plane = row_pixels + kernels::kBehindRow;
  std::vector<float> row(row_plane * kColours);
  const PixelTaps pixels = pixel_taps(across, begin, cut.mirrored);
  const std::ptrdiff_t left = static_cast<std::ptrdiff_t>(begin - part.left) * kColours;
  for (std::size_t y = 0; y < down.first.size(); ++y) {
    add_rows(picture.row(down.first[y]) + left, static_cast<std::size_t>(part.width) * kColours,
             {down.of(y), static_cast<std::size_t>(down.most)}, row_pixels,
             {row.data(), row_plane});
    add_pixels({row.data(), row_plane}, pixels, scale,
               {square.data() + y * static_cast<std::size_t>(size), plane});
  }
}

}  // namespace daso
