// SPDX-License-Identifier: Apache-2.0
#include "daso/data/image_writer.h"

#include <png.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>
#include <utility>

#include "daso/base/error.h"
#include "daso/data/jpeg_library.h"

namespace daso {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string cannot_be_written(const std::filesystem::path& path) {
  return fmt::format("{}: cannot be written", path.string());
}

void check(const RawImage& image) {
  DASO_ASSERT(image.channels == 1 || image.channels == 3 || image.channels == 4);
  DASO_ASSERT(std::cmp_equal(image.values.size(),
                             std::int64_t{image.width} * image.height * image.channels));
}

J_COLOR_SPACE colours_of(int channels) {
  if (channels == 1) return JCS_GRAYSCALE;
  return channels == 3 ? JCS_RGB : JCS_CMYK;
}

png_uint_32 format_of(int channels) {
  if (channels == 1) return PNG_FORMAT_GRAY;
  return channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
}

}  // namespace

void write_jpeg(const std::filesystem::path& path, const RawImage& image,
                const JpegOptions& options) {
  check(image);
  File file(std::fopen(path.c_str(), "wb"));
  require(file != nullptr, "{}: {}", cannot_be_written(path),
          std::generic_category().message(errno));
  JpegLibrary<jpeg_compress_struct> library(cannot_be_written(path));
  const std::int64_t row_bytes = std::int64_t{image.width} * image.channels;
  library.run([&](jpeg_compress_struct& info) {
    jpeg_stdio_dest(&info, file.get());
    info.image_width = static_cast<JDIMENSION>(image.width);
    info.image_height = static_cast<JDIMENSION>(image.height);
    info.input_components = image.channels;
    info.in_color_space = colours_of(image.channels);
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, options.quality, TRUE);
    if (options.progressive) jpeg_simple_progression(&info);
    jpeg_start_compress(&info, TRUE);
    while (info.next_scanline < info.image_height) {
      // The library does not write to it, and does not say so.
      auto* row = const_cast<JSAMPROW>(image.values.data() + info.next_scanline * row_bytes);
      jpeg_write_scanlines(&info, &row, 1);
    }
    jpeg_finish_compress(&info);
  });
  require(std::fclose(file.release()) == 0, "{}: {}", cannot_be_written(path),
          std::generic_category().message(errno));
}

void write_png(const std::filesystem::path& path, const RawImage& image) {
  check(image);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = format_of(image.channels);
  const int written = png_image_write_to_file(&header, path.c_str(), /*convert_to_8bit=*/0,
                                              image.values.data(), /*row_stride=*/0,
                                              /*colormap=*/nullptr);
  require(written != 0, "{}: {}", cannot_be_written(path),
          static_cast<const char*>(header.message));
}

}  // namespace daso
