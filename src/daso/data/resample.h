// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daso/base/random.h"
#include "daso/kernels/rows.h"

// From an image of any size to a square input: which part of it (draw_cut, centre_cut), which
// pixels that needs of the decoder (reach_of, shrink_for), and the square itself (resample). Values
// in, values out.
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

// What the square shows, in pixels of the stored image, and the pixels that may have a say in it.
struct ImageCut {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
  Rectangle within;
  bool mirrored = false;  // left and right change places
};

// Inception's crop: an area of 0.08 ... 1 of the image's, width : height from 3 : 4 to 4 : 3 on a
// logarithmic scale, anywhere. Where ten draws do not fit into the image, the largest in its centre
// that has such a ratio. As torchvision's RandomResizedCrop defines it, and the same on every
// machine.
Rectangle draw_crop(int width, int height, RandomStream random);

// The crop alone.
ImageCut cut_of(const Rectangle& crop);

// A crop drawn at random, every second one mirrored.
ImageCut draw_cut(int width, int height, RandomStream random);

// What the shorter side of a photograph becomes, so that its centre of size x size can be taken:
// size * 256 / 224.
int resized_side(int size);

// The centre of the image after its shorter side has become resized_side(size).
ImageCut centre_cut(int width, int height, int size);

// By how much an image may be shrunk (1, 2, 4 or 8) and still have a pixel for each of the
// square's. Only these: the library has fast code for no others.
int shrink_for(const ImageCut& cut, int size);

// The pixels of the stored image that a square is made of.
Rectangle reach_of(const ImageCut& cut, int size);

// The cut as a square of size x size: three planes of red, green and blue, 0 ... 1, then scaled.
// Bilinear, with a filter that widens where pixels become fewer (a triangle, as in PIL and in
// torchvision with antialias). The picture holds what reach_of() says.
void resample(const Picture& picture, const ImageCut& cut, int size, std::span<float> square,
              const ColourScale& scale = {});

}  // namespace daso
