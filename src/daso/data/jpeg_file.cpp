// SPDX-License-Identifier: Apache-2.0
#include "daso/data/jpeg_file.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/jpeg_library.h"

namespace daso {
namespace {

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

}  // namespace

std::unique_ptr<ImageFile> open_jpeg(std::span<const std::uint8_t> bytes, const std::string& name) {
  return std::make_unique<JpegFile>(bytes, name);
}

}  // namespace daso
