// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace daso {

// An image to be written.
struct RawImage {
  int width = 0;
  int height = 0;
  int channels = 3;  // 1: gray, 3: red, green, blue, 4: and alpha (PNG), or CMYK (JPEG)
  std::vector<std::uint8_t> values;  // row by row, the channels of a pixel side by side
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
