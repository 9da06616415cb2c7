// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "daso/data/crop.h"
#include "daso/data/picture.h"

namespace daso {

// The cut as a square of size x size: three planes of red, green and blue, 0 ... 1, then scaled.
// Bilinear, with a filter that widens where pixels become fewer (a triangle, as in PIL and in
// torchvision with antialias). The picture holds what reach_of() says.
void resample(const Picture& picture, const Cut& cut, int size, std::span<float> square,
              const ColourScale& scale = {});

}  // namespace daso
