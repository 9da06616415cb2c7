// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daso/data/picture.h"

namespace daso {

// An encoded image whose header has been read.
class ImageFile {
 public:
  ImageFile() = default;
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;
  virtual ~ImageFile() = default;

  virtual int width() const = 0;
  virtual int height() const = 0;

  // Decodes, once, what shows `part` of the stored image: the part at least, shrunk by `shrink` (1,
  // 2, 4 or 8) at most. What it gives is what decoding the whole image gives there. Gray becomes
  // red, green and blue; alpha is left out; orientation in EXIF data is not looked at. Throws
  // ConfigError for what is damaged or ends early.
  virtual Picture decode(const Rectangle& part, int shrink) = 0;
};

// The image in these bytes, which outlive it: a JPEG or a PNG, as its first bytes say. `name` is
// the file's. Throws ConfigError.
std::unique_ptr<ImageFile> open_image(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace daso
