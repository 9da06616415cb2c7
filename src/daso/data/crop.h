// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/base/random.h"
#include "daso/data/picture.h"

// Which part of an image of any size becomes a square input. Values in, values out.
namespace daso {

// What the square shows, in pixels of the stored image, and the pixels that may have a say in it.
struct Cut {
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
Cut cut_of(const Rectangle& crop);

// A crop drawn at random, every second one mirrored.
Cut draw_cut(int width, int height, RandomStream random);

// The centre of the image after its shorter side has become size * 256 / 224.
Cut centre_cut(int width, int height, int size);

// By how much an image may be shrunk (1, 2, 4 or 8) and still have a pixel for each of the
// square's. Only these: the library has fast code for no others.
int shrink_for(const Cut& cut, int size);

// The pixels of the stored image that a square is made of.
Rectangle reach_of(const Cut& cut, int size);

}  // namespace daso
