// SPDX-License-Identifier: Apache-2.0
#include "data/image_files.h"

#include "daso/base/random.h"

#include <fmt/format.h>

namespace daso::test {

namespace fs = std::filesystem;

RawImage image_of(int width, int height, const Value& value, int channels) {
  RawImage image{.width = width, .height = height, .channels = channels};
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int channel = 0; channel < channels; ++channel) {
        image.values.push_back(static_cast<std::uint8_t>(value(x, y, channel)));
      }
    }
  }
  return image;
}

RawImage rough(int width, int height) {
  RandomStream random{5};
  return image_of(width, height,
                  [&](int, int, int) { return static_cast<int>(random.below(256)); });
}

RawImage gradient(int width, int height) {
  return image_of(width, height, [=](int x, int y, int channel) {
    if (channel == 2) return 100;
    return channel == 0 ? 255 * x / (width - 1) : 255 * y / (height - 1);
  });
}

Picture decoded(const fs::path& path, int shrink) {
  const Bytes bytes = read_file(path);
  const auto image = open_image(bytes, path.string());
  return image->decode({.width = image->width(), .height = image->height()}, shrink);
}

void write_image_folder(const fs::path& folder, int train) {
  for (const char* part : {"train", "val"}) {
    for (const char* name : {"a", "b"}) {
      const bool red = name[0] == 'a';
      const RawImage image = image_of(
          40, 30, [=](int, int, int channel) { return channel == (red ? 0 : 2) ? 200 : 40; });
      fs::create_directories(folder / part / name);
      const int count = part[0] == 't' ? train : train / 2;
      for (int i = 0; i < count; ++i) {
        const fs::path file = folder / part / name / fmt::format("image{}", i);
        if (i % 2 == 0) {
          write_jpeg(file.string() + ".JPEG", image);
        } else {
          write_png(file.string() + ".png", image);
        }
      }
    }
  }
}

}  // namespace daso::test
