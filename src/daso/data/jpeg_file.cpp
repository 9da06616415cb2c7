// SPDX-License-Identifier: Apache-2.0
// jpeglib.h takes the two before it for granted.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
// clang-format on

#include <algorithm>
#include <array>
#include <cerrno>
#include <csetjmp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/image_file.h"

namespace daso {
namespace {

// The gate to libjpeg, which leaves by a jump when it gives up and prints when it is let.
struct JpegErrors {
  jpeg_error_mgr manager{};  // first, since this is all that the library knows of it
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};

  // The library expects not to be returned to.
  [[noreturn]] static void give_up(j_common_ptr info) {
    auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
    info->err->format_message(info, errors->message.data());
    std::longjmp(errors->jump, 1);
  }
  // Levels below 0 tell of damage that the library would paint over; the others are chatter.
  static void take_message(j_common_ptr info, int level) {
    if (level < 0) give_up(info);
  }
};

void create_jpeg(jpeg_decompress_struct& info) { jpeg_create_decompress(&info); }
void create_jpeg(jpeg_compress_struct& info) { jpeg_create_compress(&info); }

// Owns the state of reading (jpeg_decompress_struct) or writing (jpeg_compress_struct) one image.
template <typename Info>
class JpegLibrary {
 public:
  // Messages begin with `failure`: the file and what is wrong then.
  explicit JpegLibrary(std::string failure) : failure_(std::move(failure)) {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = JpegErrors::give_up;
    errors_.manager.emit_message = JpegErrors::take_message;
    run([](Info& info) { create_jpeg(info); });
  }
  JpegLibrary(const JpegLibrary&) = delete;
  JpegLibrary& operator=(const JpegLibrary&) = delete;
  ~JpegLibrary() { jpeg_destroy(reinterpret_cast<j_common_ptr>(&info_)); }

  // Every call of the library is made in here. Throws ConfigError where it gives up. `work` and
  // what it calls must own nothing: they are left by a jump then, without destructors.
  template <typename Work>
  void run(const Work& work) {
    if (setjmp(errors_.jump) != 0) {
      throw ConfigError(fmt::format("{}: {}", failure_, errors_.message.data()));
    }
    work(info_);
  }

  const Info& info() const { return info_; }

 private:
  std::string failure_;
  JpegErrors errors_;
  Info info_{};
};

constexpr std::string_view kEndOfImage = "\xff\xd9";

// Pixels from `first` to before `end` of a row or column.
struct Stretch {
  int first = 0;
  int end = 0;
};

// Those of a shrunk row of `size` that show these of the stored one; and a little more at each
// side, since the library smooths colours differently at the edge of what it decodes, and not at
// all where that is narrower than 3.
Stretch shrunk(const Stretch& stored, int shrink, JDIMENSION size) {
  return {std::max(0, stored.first / shrink - 1),
          std::min(static_cast<int>(size), (stored.end + shrink - 1) / shrink + 2)};
}

// As Adobe's programs write CMYK, 255 is no ink.
void cmyk_to_rgb(const std::uint8_t* from, int pixels, std::uint8_t* to) {
  constexpr int kNoInk = 255;
  for (int i = 0; i < pixels; ++i, from += 4) {
    for (int colour = 0; colour < kColours; ++colour) {
      *to++ = static_cast<std::uint8_t>((from[colour] * from[3] + kNoInk / 2) / kNoInk);
    }
  }
}

class JpegFile final : public ImageFile {
 public:
  JpegFile(std::span<const std::uint8_t> bytes, const std::string& name)
      : name_(name), library_(name + ": damaged JPEG image") {
    library_.run([bytes](jpeg_decompress_struct& info) {
      jpeg_mem_src(&info, bytes.data(), static_cast<unsigned long>(bytes.size()));
      jpeg_read_header(&info, TRUE);
    });
  }

  int width() const override { return static_cast<int>(library_.info().image_width); }
  int height() const override { return static_cast<int>(library_.info().image_height); }

  Picture decode(const Rectangle& part, int shrink) override {
    start(shrink);
    const jpeg_decompress_struct& now = library_.info();
    const Stretch rows = shrunk({part.top, part.bottom()}, shrink, now.output_height);
    const Stretch columns = shrunk({part.left, part.right()}, shrink, now.output_width);
    Picture picture{.part = seek(columns, rows), .shrunk = shrink};
    picture.values.resize(static_cast<std::size_t>(picture.part.width) *
                          static_cast<std::size_t>(picture.part.height) * kColours);
    read_rows(picture);
    finish();
    return picture;
  }

 private:
  bool cmyk() const { return library_.info().out_color_space == JCS_CMYK; }

  void start(int shrink) {
    library_.run([shrink](jpeg_decompress_struct& info) {
      const bool four = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
      info.out_color_space = four ? JCS_CMYK : JCS_RGB;
      info.scale_num = 1;
      info.scale_denom = static_cast<unsigned int>(shrink);
      jpeg_start_decompress(&info);
    });
  }

  // Goes to the first of the rows. Columns begin where the library can begin.
  Rectangle seek(const Stretch& columns, const Stretch& rows) {
    auto left = static_cast<JDIMENSION>(columns.first);
    auto width = static_cast<JDIMENSION>(columns.end - columns.first);
    library_.run([&](jpeg_decompress_struct& info) {
      jpeg_crop_scanline(&info, &left, &width);
      if (rows.first > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(rows.first));
    });
    return {.left = static_cast<int>(left),
            .top = rows.first,
            .width = static_cast<int>(width),
            .height = rows.end - rows.first};
  }

  void read_rows(Picture& picture) {
    const std::size_t row_bytes = static_cast<std::size_t>(picture.part.width) * kColours;
    std::vector<std::uint8_t> four(cmyk() ? static_cast<std::size_t>(picture.part.width) * 4 : 0);
    std::uint8_t* const ink = four.empty() ? nullptr : four.data();
    library_.run([&](jpeg_decompress_struct& info) {
      std::uint8_t* to = picture.values.data();
      for (int row = 0; row < picture.part.height; ++row, to += row_bytes) {
        JSAMPROW line = ink != nullptr ? ink : to;
        jpeg_read_scanlines(&info, &line, 1);
        if (ink != nullptr) cmyk_to_rgb(ink, picture.part.width, to);
      }
    });
  }

  // A file that ends early is refused even where only its beginning was needed.
  void finish() {
    bool whole = true;
    library_.run([&](jpeg_decompress_struct& info) {
      if (info.output_scanline == info.output_height) {
        jpeg_finish_decompress(&info);
      } else if (jpeg_has_multiple_scans(&info) == FALSE) {  // else all has been read by now
        whole = info.unread_marker == JPEG_EOI ||
                std::string_view(reinterpret_cast<const char*>(info.src->next_input_byte),
                                 info.src->bytes_in_buffer)
                        .find(kEndOfImage) != std::string_view::npos;
      }
    });
    require(whole, "{}: damaged JPEG image: it ends early", name_);
  }

  std::string name_;
  JpegLibrary<jpeg_decompress_struct> library_;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::string cannot_be_written(const std::filesystem::path& path) {
  return fmt::format("{}: cannot be written", path.string());
}

J_COLOR_SPACE colours_of(int channels) {
  if (channels == 1) return JCS_GRAYSCALE;
  return channels == 3 ? JCS_RGB : JCS_CMYK;
}

}  // namespace

std::unique_ptr<ImageFile> open_jpeg(std::span<const std::uint8_t> bytes, const std::string& name) {
  return std::make_unique<JpegFile>(bytes, name);
}

void write_jpeg(const std::filesystem::path& path, const RawImage& image,
                const JpegOptions& options) {
  image.check();
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

}  // namespace daso
