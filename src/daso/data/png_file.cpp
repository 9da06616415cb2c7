// SPDX-License-Identifier: Apache-2.0
#include "daso/data/png_file.h"

#include <png.h>

#include <utility>

#include "daso/base/error.h"

namespace daso {
namespace {

// Owns what the library allocates for an image.
struct PngImage {
  PngImage() { header.version = PNG_IMAGE_VERSION; }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
  ~PngImage() { png_image_free(&header); }

  png_image header{};
};

class PngFile final : public ImageFile {
 public:
  PngFile(std::span<const std::uint8_t> bytes, std::string name) : name_(std::move(name)) {
    check(png_image_begin_read_from_memory(&image_.header, bytes.data(), bytes.size()));
  }

  int width() const override { return static_cast<int>(image_.header.width); }
  int height() const override { return static_cast<int>(image_.header.height); }

  Picture decode(const Rectangle& /*part*/, int /*shrink*/) override {
    Picture picture{.part = {.width = width(), .height = height()}};
    const bool alpha = (image_.header.format & PNG_FORMAT_FLAG_ALPHA) != 0;
    // Without a place for alpha the library would mix colours with a background.
    image_.header.format = alpha ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
    image_.header.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // as 8 bits are
    const std::size_t pixels =
        static_cast<std::size_t>(width()) * static_cast<std::size_t>(height());
    picture.values.resize(pixels * (alpha ? kColours + 1 : kColours));
    check(png_image_finish_read(&image_.header, /*background=*/nullptr, picture.values.data(),
                                /*row_stride=*/0, /*colormap=*/nullptr));
    if (alpha) drop_alpha(picture.values, pixels);
    return picture;
  }

 private:
  static void drop_alpha(std::vector<std::uint8_t>& values, std::size_t pixels) {
    for (std::size_t i = 0; i < pixels; ++i) {
      for (std::size_t colour = 0; colour < kColours; ++colour) {
        values[i * kColours + colour] = values[i * (kColours + 1) + colour];
      }
    }
    values.resize(pixels * kColours);
  }

  void check(int result) const {
    require(result != 0, "{}: damaged PNG image: {}", name_,
            static_cast<const char*>(image_.header.message));
  }

  std::string name_;
  PngImage image_;
};

}  // namespace

std::unique_ptr<ImageFile> open_png(std::span<const std::uint8_t> bytes, const std::string& name) {
  return std::make_unique<PngFile>(bytes, name);
}

}  // namespace daso
