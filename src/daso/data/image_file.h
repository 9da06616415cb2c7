// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daso/data/resample.h"

// Images as files: JPEG and PNG, as their first bytes say. They are read from memory, in part where
// the format allows it, since decoding is what loading images costs. jpeg_file.cpp and png_file.cpp
// are the only places that know the libraries.
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

// What open_image() chooses from. By libjpeg-turbo: what it warns of as damaged is an error. CMYK
// becomes red, green and blue as Adobe's programs write it.
std::unique_ptr<ImageFile> open_jpeg(std::span<const std::uint8_t> bytes, const std::string& name);

// By libpng: palettes, gray and 16 bits become bytes of red, green and blue. Always decodes the
// whole image, at its size.
std::unique_ptr<ImageFile> open_png(std::span<const std::uint8_t> bytes, const std::string& name);

// An image to be written.
struct RawImage {
  int width = 0;
  int height = 0;
  int channels = 3;  // 1: gray, 3: red, green, blue, 4: and alpha (PNG), or CMYK (JPEG)
  std::vector<std::uint8_t> values;  // row by row, the channels of a pixel side by side

  void check() const;  // asserts that there are as many values as the sizes say
};

struct JpegOptions {
  int quality = 90;  // 1 ... 100
  bool progressive = false;
};

// Throw ConfigError naming a file that cannot be written.
void write_jpeg(const std::filesystem::path& path, const RawImage& image,
                const JpegOptions& options = {});
void write_png(const std::filesystem::path& path, const RawImage& image);

}  // namespace daso
