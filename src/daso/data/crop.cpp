// SPDX-License-Identifier: Apache-2.0
#include "daso/data/crop.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "daso/base/power.h"

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

struct Reach {
  int first = 0;
  int end = 0;
};

// The pixels of first ... end - 1 that have a say in `size` pixels over `length` from `from` on.
Reach reach(double from, double length, int size, int first, int end) {
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

Cut cut_of(const Rectangle& crop) {
  return {.left = static_cast<double>(crop.left),
          .top = static_cast<double>(crop.top),
          .width = static_cast<double>(crop.width),
          .height = static_cast<double>(crop.height),
          .within = crop};
}

Cut draw_cut(int width, int height, RandomStream random) {
  const bool mirrored = random.below(2) == 1;
  Cut cut = cut_of(draw_crop(width, height, random));
  cut.mirrored = mirrored;
  return cut;
}

Cut centre_cut(int width, int height, int size) {
  const int shorter = rounded(static_cast<double>(size) * kResized / kKept);
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

int shrink_for(const Cut& cut, int size) {
  for (const int shrink : {8, 4, 2}) {
    if (std::min(cut.width, cut.height) >= static_cast<double>(shrink) * size) return shrink;
  }
  return 1;
}

Rectangle reach_of(const Cut& cut, int size) {
  const Rectangle& within = cut.within;
  const Reach across = reach(cut.left, cut.width, size, within.left, within.right());
  const Reach down = reach(cut.top, cut.height, size, within.top, within.bottom());
  return {.left = across.first,
          .top = down.first,
          .width = across.end - across.first,
          .height = down.end - down.first};
}

}  // namespace daso
