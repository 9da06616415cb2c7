// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/data/image_file.h"

namespace daso {

// By libjpeg-turbo. What it warns of as damaged is an error. CMYK becomes red, green and blue as
// Adobe's programs write it.
std::unique_ptr<ImageFile> open_jpeg(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace daso
