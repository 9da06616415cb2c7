// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "daso/kernels/colours.h"

namespace daso {

// Whole pixels of an image, from its upper left corner.
struct Rectangle {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;

  int right() const { return left + width; }
  int bottom() const { return top + height; }
  bool operator==(const Rectangle&) const = default;
};

// A decoded image or a part of it.
struct Picture {
  Rectangle part;  // of the image as it was decoded
  int shrunk = 1;  // which has 1 / shrunk of the stored one's width and height, rounded up
  std::vector<std::uint8_t> values;  // row by row, the colours of a pixel side by side

  const std::uint8_t* row(int y) const {  // of the image, as part says
    return values.data() + static_cast<std::int64_t>(y - part.top) * part.width * kColours;
  }
};

}  // namespace daso
