// SPDX-License-Identifier: Apache-2.0
#include "daso/data/image_file.h"

#include <gtest/gtest.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/random.h"
#include "data/image_files.h"

namespace daso {
namespace {

using test::Bytes;
using test::decoded;
using test::gradient;
using test::image_of;
using test::rough;
using test::read_file;
using test::refusal;
using test::write_file;

class ImageFiles : public test::DataFolder {
 protected:
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  // What opening and decoding says of these bytes.
  static std::string refused(const Bytes& bytes, const Rectangle& part) {
    return refusal([&] { open_image(bytes, "x.jpg")->decode(part, 1); });
  }
};

// The largest difference of two pictures of the same size.
int difference(const std::vector<std::uint8_t>& a, const std::vector<std::uint8_t>& b) {
  EXPECT_EQ(a.size(), b.size());
  int most = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(int{a[i]} - int{b[i]}));
  }
  return most;
}

TEST_F(ImageFiles, PngComesBackExactly) {
  const RawImage image = gradient(37, 23);
  write_png(path("a.png"), image);
  const Picture picture = decoded(path("a.png"));
  EXPECT_EQ(picture.part, (Rectangle{.width = 37, .height = 23}));
  EXPECT_EQ(picture.shrunk, 1);
  EXPECT_EQ(picture.values, image.values);
}

TEST_F(ImageFiles, GrayPngHasThreeEqualColours) {
  write_png(path("gray.png"), image_of(
                                  5, 4, [](int x, int y, int) { return 10 * x + y; }, 1));
  EXPECT_EQ(decoded(path("gray.png")).values,
            image_of(5, 4, [](int x, int y, int) { return 10 * x + y; }).values);
}

TEST_F(ImageFiles, AlphaOfAPngIsLeftOut) {
  const auto value = [](int x, int y, int channel) { return channel == 3 ? 40 * x : 9 * x + y; };
  write_png(path("alpha.png"), image_of(6, 4, value, 4));
  EXPECT_EQ(decoded(path("alpha.png")).values, image_of(6, 4, value).values);
}

TEST_F(ImageFiles, PaletteOfAPngIsLookedUp) {
  const std::vector<std::uint8_t> palette = {255, 0, 0, 0, 128, 7, 1, 2, 3};
  const std::vector<std::uint8_t> numbers = {0, 1, 2, 2, 1, 0};
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = 3;
  header.height = 2;
  header.format = PNG_FORMAT_RGB_COLORMAP;
  header.colormap_entries = 3;
  ASSERT_NE(
      png_image_write_to_file(&header, path("p.png").c_str(), 0, numbers.data(), 0, palette.data()),
      0);
  EXPECT_EQ(decoded(path("p.png")).values,
            image_of(3, 2, [&](int x, int y, int channel) {
              const int number = numbers[static_cast<std::size_t>(3 * y + x)];
              return int{palette[static_cast<std::size_t>(3 * number + channel)]};
            }).values);
}

TEST_F(ImageFiles, JpegOfOneColourHasIt) {
  for (const bool progressive : {false, true}) {
    const RawImage image =
        image_of(50, 41, [](int, int, int channel) { return 60 * (channel + 1); });
    write_jpeg(path("a.jpg"), image, {.quality = 95, .progressive = progressive});
    EXPECT_LE(difference(decoded(path("a.jpg")).values, image.values), 2);
  }
}

TEST_F(ImageFiles, JpegMayBeGrayOrCmyk) {
  write_jpeg(path("gray.jpg"), image_of(
                                   20, 20, [](int, int, int) { return 90; }, 1));
  EXPECT_LE(difference(decoded(path("gray.jpg")).values,
                       image_of(20, 20, [](int, int, int) { return 90; }).values),
            1);
  // 255 is no ink: colour * black / 255.
  const std::vector<int> ink = {255, 128, 0, 128};
  write_jpeg(path("cmyk.jpg"),
             image_of(
                 20, 20, [&](int, int, int c) { return ink[static_cast<std::size_t>(c)]; }, 4),
             {.quality = 100});
  const RawImage expected = image_of(20, 20, [&](int, int, int c) {
    return static_cast<int>(std::lround(ink[static_cast<std::size_t>(c)] * 128 / 255.0));
  });
  EXPECT_LE(difference(decoded(path("cmyk.jpg")).values, expected.values), 2);
}

// A linear gradient is its own mean over blocks: pixel i of an image shrunk by s shows what lies
// around s i + (s - 1) / 2 of the stored one.
TEST_F(ImageFiles, JpegIsShrunkWhileItIsDecoded) {
  write_jpeg(path("a.jpg"), gradient(512, 320), {.quality = 98});
  for (const int shrink : {1, 2, 4, 8}) {
    const Picture picture = decoded(path("a.jpg"), shrink);
    EXPECT_EQ(picture.shrunk, shrink);
    EXPECT_EQ(picture.part, (Rectangle{.width = 512 / shrink, .height = 320 / shrink}));
    for (int y = 0; y < picture.part.height; ++y) {
      for (int x = 0; x < picture.part.width; ++x) {
        const std::uint8_t* const pixel = picture.row(y) + 3 * x;
        ASSERT_NEAR(pixel[0], 255.0 * (shrink * x + (shrink - 1) / 2.0) / 511, 4);
        ASSERT_NEAR(pixel[1], 255.0 * (shrink * y + (shrink - 1) / 2.0) / 319, 4);
      }
    }
  }
}

TEST_F(ImageFiles, PartOfAJpegIsThatOfTheWhole) {
  RandomStream random{6};
  for (const bool progressive : {false, true}) {
    for (const int channels : {3, 1}) {
      RawImage image = rough(131, 97);
      if (channels == 1) {
        image.channels = 1;
        image.values.resize(131 * 97);
      }
      write_jpeg(path("a.jpg"), image, {.progressive = progressive});
      const Bytes bytes = read_file(path("a.jpg"));
      for (int i = 0; i < 200; ++i) {
        const int shrink = 1 << random.below(4);
        const Picture whole = decoded(path("a.jpg"), shrink);
        Rectangle part{.left = static_cast<int>(random.below(131)),
                       .top = static_cast<int>(random.below(97))};
        part.width =
            1 + static_cast<int>(random.below(static_cast<std::uint64_t>(131 - part.left)));
        part.height = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(97 - part.top)));
        const Picture found = open_image(bytes, "a.jpg")->decode(part, shrink);
        // All pixels that show some of the part are there, and are what they are in the whole.
        for (int y = part.top / shrink; shrink * y < part.bottom(); ++y) {
          ASSERT_TRUE(y >= found.part.top && y < found.part.bottom());
          for (int x = part.left / shrink; shrink * x < part.right(); ++x) {
            ASSERT_TRUE(x >= found.part.left && x < found.part.right());
            for (int colour = 0; colour < 3; ++colour) {
              ASSERT_EQ(found.row(y)[3 * (x - found.part.left) + colour],
                        whole.row(y)[3 * x + colour])
                  << "shrink " << shrink << ", part " << part.left << " " << part.top << " "
                  << part.width << " " << part.height << ", pixel " << x << " " << y;
            }
          }
        }
      }
    }
  }
}

TEST_F(ImageFiles, RefusesAJpegThatEndsEarly) {
  for (const bool progressive : {false, true}) {
    write_jpeg(path("a.jpg"), rough(200, 160), {.progressive = progressive});
    const Bytes whole = read_file(path("a.jpg"));
    for (const std::size_t cut : {whole.size() / 3, whole.size() / 2, whole.size() - 2}) {
      const Bytes bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut));
      // Also where only the beginning is asked for.
      for (const int height : {160, 8}) {
        const std::string message = refused(bytes, {.width = 200, .height = height});
        EXPECT_EQ(message.find("x.jpg: damaged JPEG image: "), 0U) << message;
      }
    }
  }
}

TEST_F(ImageFiles, RefusesDamagedAndForeignFiles) {
  write_png(path("a.png"), gradient(40, 30));
  Bytes bytes = read_file(path("a.png"));
  bytes[bytes.size() / 2] ^= 0xff;
  EXPECT_EQ(refused(bytes, {}).find("x.jpg: damaged PNG image: "), 0U);
  bytes.resize(60);
  EXPECT_EQ(refused(bytes, {}).find("x.jpg: damaged PNG image: "), 0U);
  const std::string text = "This is no image at all.";
  EXPECT_EQ(refused({text.begin(), text.end()}, {}), "x.jpg: neither a JPEG nor a PNG image");
  EXPECT_EQ(refused({}, {}), "x.jpg: neither a JPEG nor a PNG image");
}

// Random damage is an error that names the file, or gives a picture of the right size.
TEST_F(ImageFiles, AreRefusedOrSound) {
  write_jpeg(path("a"), rough(64, 48));
  write_jpeg(path("b"), rough(64, 48), {.progressive = true});
  write_png(path("c"), rough(64, 48));
  RandomStream random{8};
  int refusals = 0;
  for (const char* name : {"a", "b", "c"}) {
    const Bytes good = read_file(path(name));
    for (int variant = 0; variant < 700; ++variant) {
      Bytes bytes = good;
      for (std::uint64_t left = 1 + random.below(4); left > 0; --left) {
        const std::uint64_t most = random.below(2) == 0 ? 700 : bytes.size();  // headers, or all
        bytes[random.below(std::min<std::uint64_t>(most, bytes.size()))] =
            static_cast<std::uint8_t>(random.next());
      }
      try {
        const auto image = open_image(bytes, "name");
        const int width = image->width();
        const int height = image->height();
        if (std::int64_t{width} * height > 1'000'000) continue;  // takes long, and is no news
        const Picture picture = image->decode({.width = width, .height = height}, 1);
        EXPECT_EQ(picture.values.size(),
                  3 * static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
      } catch (const ConfigError& error) {
        EXPECT_EQ(std::string(error.what()).find("name: "), 0U) << error.what();
        ++refusals;
      }
    }
  }
  EXPECT_TRUE(refusals > 300 && refusals < 2100) << refusals;
}

}  // namespace
}  // namespace daso
