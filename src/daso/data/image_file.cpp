// SPDX-License-Identifier: Apache-2.0
#include "daso/data/image_file.h"

#include <algorithm>
#include <array>
#include <utility>

#include "daso/base/error.h"

namespace daso {
namespace {

// More are a damaged header, or would take all memory.
constexpr std::int64_t kMostPixels = std::int64_t{1} << 27;
constexpr std::array<std::uint8_t, 3> kJpegMark = {0xff, 0xd8, 0xff};
constexpr std::array<std::uint8_t, 8> kPngMark = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

bool begins_with(std::span<const std::uint8_t> bytes, std::span<const std::uint8_t> mark) {
  return bytes.size() >= mark.size() && std::equal(mark.begin(), mark.end(), bytes.begin());
}

}  // namespace

std::unique_ptr<ImageFile> open_image(std::span<const std::uint8_t> bytes,
                                      const std::string& name) {
  std::unique_ptr<ImageFile> image;
  if (begins_with(bytes, kJpegMark)) image = open_jpeg(bytes, name);
  if (begins_with(bytes, kPngMark)) image = open_png(bytes, name);
  require(image != nullptr, "{}: neither a JPEG nor a PNG image", name);
  const int width = image->width();
  const int height = image->height();
  require(width >= 1 && height >= 1 && std::int64_t{width} * height <= kMostPixels,
          "{}: an image of {}x{} pixels is too large to be true", name, width, height);
  return image;
}

void RawImage::check() const {
  DASO_ASSERT(channels == 1 || channels == 3 || channels == 4);
  DASO_ASSERT(std::cmp_equal(values.size(), std::int64_t{width} * height * channels));
}

}  // namespace daso
