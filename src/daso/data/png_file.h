// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/data/image_file.h"

namespace daso {

// By libpng. Palettes, gray and 16 bits become bytes of red, green and blue. Always decodes the
// whole image, at its size.
std::unique_ptr<ImageFile> open_png(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace daso
