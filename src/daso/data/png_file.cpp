// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <utility>

#include "daso/base/error.h"
#include "daso/data/image_file.h"

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

png_uint_32 format_of(int channels) {
  if (channels == 1) return PNG_FORMAT_GRAY;
  return channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

}  // namespace

std::unique_ptr<ImageFile> open_png(std::span<const std::uint8_t> bytes, const std::string& name) {
  return std::make_unique<PngFile>(bytes, name);
}

void write_png(const std::filesystem::path& path, const RawImage& image) {
  image.check();
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = format_of(image.channels);
  const int written = png_image_write_to_file(&header, path.c_str(), /*convert_to_8bit=*/0,
                                              image.values.data(), /*row_stride=*/0,
                                              /*colormap=*/nullptr);
  require(written != 0, "{}: cannot be written: {}", path.string(),
          static_cast<const char*>(header.message));
}

}  // namespace daso
