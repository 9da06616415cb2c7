// SPDX-License-Identifier: Apache-2.0
#include "daso/data/resample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "daso/kernels/rows.h"
#include "data/image_files.h"

namespace daso {
namespace {

using test::gradient;
using test::image_of;
using test::rough;

Picture picture_of(const RawImage& image) {
  return {.part = {.width = image.width, .height = image.height}, .values = image.values};
}

std::vector<float> square_of(const Picture& picture, const ImageCut& cut, int size) {
  std::vector<float> square(static_cast<std::size_t>(3 * size * size), -1.0F);
  resample(picture, cut, size, square);
  return square;
}

// One value of the definition, in double precision and without any economy: the weighted mean over
// all pixels that are allowed, with a triangle of half width max(1, step) in each direction.
double direct(const RawImage& image, const ImageCut& cut, int size, int x, int y, int channel) {
  const double across = cut.width / size;
  const double down = cut.height / size;
  const auto triangle = [](double distance, double step) {
    return std::max(0.0, 1 - std::abs(distance) / std::max(1.0, step));
  };
  double sum = 0;
  double weights = 0;
  for (int row = cut.within.top; row < cut.within.bottom(); ++row) {
    for (int column = cut.within.left; column < cut.within.right(); ++column) {
      const double weight = triangle(row + 0.5 - (cut.top + (y + 0.5) * down), down) *
                            triangle(column + 0.5 - (cut.left + (x + 0.5) * across), across);
      const auto at = static_cast<std::size_t>((row * image.width + column) * 3 + channel);
      sum += weight * image.values[at];
      weights += weight;
    }
  }
  return sum / weights / 255;
}

TEST(Resample, IsTheWeightedMeanOfTheDefinition) {
  RandomStream random{4};
  for (int variant = 0; variant < 60; ++variant) {
    const RawImage image =
        rough(1 + static_cast<int>(random.below(60)), 1 + static_cast<int>(random.below(60)));
    const int size = 8 + static_cast<int>(random.below(20));
    const ImageCut cut =
        variant % 2 == 0
            ? centre_cut(image.width, image.height, size)
            : cut_of(draw_crop(image.width, image.height, RandomStream{random.next()}));
    const std::vector<float> square = square_of(picture_of(image), cut, size);
    for (int channel = 0; channel < 3; ++channel) {
      for (int y = 0; y < size; y += 3) {
        for (int x = 0; x < size; x += 3) {
          const auto at = static_cast<std::size_t>((channel * size + y) * size + x);
          ASSERT_NEAR(square[at], direct(image, cut, size, x, y, channel), 2e-6)
              << image.width << "x" << image.height << " to " << size;
        }
      }
    }
  }
}

// As made() of resample_numbers.py.
RawImage made(int width, int height) {
  return image_of(width, height, [](int x, int y, int channel) {
    return (7 * x * x + 13 * y * y + 5 * x * y + 29 * channel) % 256;
  });
}

// A crop, or where there is none the centre.
ImageCut cut_in(const nlohmann::json& one) {
  if (!one.contains("crop")) return centre_cut(one.at("width"), one.at("height"), one.at("size"));
  const nlohmann::json& crop = one.at("crop");
  return cut_of({.left = crop.at(0).get<int>(),
                 .top = crop.at(1).get<int>(),
                 .width = crop.at(2).get<int>(),
                 .height = crop.at(3).get<int>()});
}

TEST(Resample, GivesWhatPytorchGives) {
  std::ifstream file(DASO_RESAMPLE_NUMBERS);
  const nlohmann::json numbers = nlohmann::json::parse(file);
  const auto stride = numbers.at("stride").get<std::size_t>();
  ASSERT_EQ(numbers.at("cases").size(), 12U);
  for (const nlohmann::json& one : numbers.at("cases")) {
    const int size = one.at("size");
    const RawImage image = made(one.at("width"), one.at("height"));
    const std::vector<float> square = square_of(picture_of(image), cut_in(one), size);
    const auto values = one.at("values").get<std::vector<double>>();
    ASSERT_EQ(values.size(), (square.size() + stride - 1) / stride);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(square[i * stride], values[i], 1e-5)
          << image.width << "x" << image.height << " to " << size << " at " << i * stride;
    }
  }
}

TEST(Resample, NeedsNoMoreThanTheReachOfTheCut) {
  RandomStream random{14};
  const RawImage image = rough(90, 70);
  for (int variant = 0; variant < 100; ++variant) {
    const int size = 8 + static_cast<int>(random.below(40));
    const ImageCut cut = variant % 2 == 0 ? centre_cut(90, 70, size)
                                          : cut_of(draw_crop(90, 70, RandomStream{random.next()}));
    const Rectangle reach = reach_of(cut, size);
    Picture part{.part = reach};
    for (int y = reach.top; y < reach.bottom(); ++y) {
      const auto first = image.values.begin() + (y * 90 + reach.left) * 3;
      part.values.insert(part.values.end(), first, first + std::int64_t{reach.width} * 3);
    }
    EXPECT_EQ(square_of(part, cut, size), square_of(picture_of(image), cut, size));
  }
}

TEST(Resample, KeepsOneColour) {
  const Picture picture =
      picture_of(image_of(57, 43, [](int, int, int channel) { return 50 + 60 * channel; }));
  for (const int size : {8, 31, 224}) {
    const std::vector<float> square = square_of(picture, centre_cut(57, 43, size), size);
    const auto plane = static_cast<std::size_t>(size * size);
    for (std::size_t i = 0; i < square.size(); ++i) {
      ASSERT_NEAR(square[i], (50 + 60 * static_cast<double>(i / plane)) / 255, 1e-6);
    }
  }
}

TEST(Resample, KeepsAGradientLinear) {
  const int width = 400;
  const int height = 300;
  const ImageCut cut = centre_cut(width, height, 64);
  const std::vector<float> square = square_of(picture_of(gradient(width, height)), cut, 64);
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) {
      // Pixel i of the image has its centre at i + 0.5 and the value i / (width - 1).
      const double red = (cut.left + (x + 0.5) * cut.width / 64 - 0.5) / (width - 1);
      const double green = (cut.top + (y + 0.5) * cut.height / 64 - 0.5) / (height - 1);
      const auto at = static_cast<std::size_t>(y * 64 + x);
      ASSERT_NEAR(square[at], red, 2 / 255.0);
      ASSERT_NEAR(square[64 * 64 + at], green, 2 / 255.0);
      ASSERT_NEAR(square[2 * 64 * 64 + at], 100 / 255.0, 1e-6);
    }
  }
}

TEST(Resample, LeavesAnImageOfTheRightSizeAsItIs) {
  const RawImage image = rough(32, 32);
  const std::vector<float> square =
      square_of(picture_of(image), cut_of({.width = 32, .height = 32}), 32);
  for (std::size_t i = 0; i < 32 * 32; ++i) {
    EXPECT_NEAR(square[i], image.values[3 * i] / 255.0, 2e-7);
    EXPECT_NEAR(square[2048 + i], image.values[3 * i + 2] / 255.0, 2e-7);
  }
}

TEST(Crop, OfTheCentreIsThatOfTheResizedImage) {
  // 512 x 256 becomes 512 x 256, of which columns 144 ... 367 and rows 16 ... 239 stay.
  const ImageCut wide = centre_cut(512, 256, 224);
  EXPECT_EQ(wide.left, 144);
  EXPECT_EQ(wide.top, 16);
  EXPECT_EQ(wide.width, 224);
  EXPECT_EQ(wide.height, 224);
  EXPECT_EQ(wide.within, (Rectangle{.width = 512, .height = 256}));
  // 300 x 1000 becomes 64 x 213 for 56: two pixels and a bit for each.
  const ImageCut high = centre_cut(300, 1000, 56);
  EXPECT_DOUBLE_EQ(high.left, 4 * 300.0 / 64);
  EXPECT_DOUBLE_EQ(high.width, 56 * 300.0 / 64);
  EXPECT_DOUBLE_EQ(high.top, 78 * 1000.0 / 213);  // (213 - 56) / 2 = 78.5, to even
  EXPECT_DOUBLE_EQ(high.height, 56 * 1000.0 / 213);
}

TEST(Crop, IsDrawnWithinItsBounds) {
  const double area = 500.0 * 375;
  double least_area = 1;
  double most_area = 0;
  double sum = 0;
  int wide = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const Rectangle crop = draw_crop(500, 375, RandomStream{1, i});
    EXPECT_EQ(crop, draw_crop(500, 375, RandomStream{1, i}));
    EXPECT_TRUE(crop.left >= 0 && crop.top >= 0 && crop.right() <= 500 && crop.bottom() <= 375);
    // Sides are rounded to whole pixels.
    const double ratio = static_cast<double>(crop.width) / crop.height;
    EXPECT_TRUE(ratio > 0.74 && ratio < 1.35) << ratio;
    const double share = crop.width * crop.height / area;
    EXPECT_TRUE(share > 0.079 && share <= 1) << share;
    least_area = std::min(least_area, share);
    most_area = std::max(most_area, share);
    sum += share;
    wide += ratio > 1 ? 1 : 0;
  }
  EXPECT_LT(least_area, 0.1);
  EXPECT_GT(most_area, 0.9);
  // Uniform over 0.08 ... 1 would be 0.54; what does not fit, mostly large ones, is drawn again.
  EXPECT_TRUE(sum / 1000 > 0.4 && sum / 1000 < 0.56) << sum / 1000;
  EXPECT_GT(wide, 450);  // the image is wide, so upright ones fit less often
}

TEST(Crop, FallsBackToTheLargestInTheCentre) {
  // No crop of at least 0.08 of the area and 3 : 4 fits into one row of pixels, or nearly none.
  EXPECT_EQ(draw_crop(1000, 10, RandomStream{1}),
            (Rectangle{.left = 493, .top = 0, .width = 13, .height = 10}));
  EXPECT_EQ(draw_crop(10, 1000, RandomStream{1}),
            (Rectangle{.left = 0, .top = 493, .width = 10, .height = 13}));
}

TEST(Crop, LetsTheImageShrinkAsLongAsItCoversTheSquare) {
  const auto shrink = [](int width, int height) {
    return shrink_for(cut_of({.width = width, .height = height}), 224);
  };
  EXPECT_EQ(shrink(100, 100), 1);
  EXPECT_EQ(shrink(447, 600), 1);
  EXPECT_EQ(shrink(448, 600), 2);
  EXPECT_EQ(shrink(2000, 895), 2);
  EXPECT_EQ(shrink(2000, 896), 4);
  EXPECT_EQ(shrink(1792, 1792), 8);
  EXPECT_EQ(shrink(20000, 20000), 8);
}

TEST(Crop, IsMirroredEverySecondTime) {
  int mirrored = 0;
  for (std::uint64_t i = 0; i < 9000; ++i) {
    mirrored += draw_cut(60, 60, RandomStream{2, i}).mirrored ? 1 : 0;
  }
  EXPECT_NEAR(mirrored, 4500, 5 * 48);
}

TEST(Resample, MirrorsEachRow) {
  const Picture picture = picture_of(rough(37, 29));
  ImageCut cut = centre_cut(37, 29, 21);
  const std::vector<float> square = square_of(picture, cut, 21);
  cut.mirrored = true;
  const std::vector<float> mirrored = square_of(picture, cut, 21);
  for (std::size_t row = 0; row < 3 * 21; ++row) {
    for (std::size_t x = 0; x < 21; ++x) {
      ASSERT_EQ(mirrored[row * 21 + x], square[row * 21 + 20 - x]);
    }
  }
}

// Rows are summed alike whatever the processor has, and as plain arithmetic does it. Of 39 pixels
// and of 5: more than whole vectors, and less than one.
TEST(Rows, AddUpAlikeOnEveryInstructionSet) {
  for (const std::size_t pixels : {39U, 5U}) {
    const std::size_t stride = 3 * pixels + 2;
    std::vector<std::uint8_t> rows(4 * stride);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint8_t>(i * 7 % 256);
    for (const std::size_t number : {1U, 2U, 3U, 4U}) {
      const std::vector<float> weights = {0.25F, 0.3F, 0.45F, 0.1F};
      std::vector<float> expected(3 * pixels);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        float sum = weights[0] * static_cast<float>(rows[i]);
        for (std::size_t row = 1; row < number; ++row) {
          sum += weights[row] * static_cast<float>(rows[row * stride + i]);
        }
        expected[i % 3 * pixels + i / 3] = sum;
      }
      for (const InstructionSet set : supported_instruction_sets()) {
        std::vector<float> sum(3 * pixels);
        add_rows(rows.data(), stride, std::span(weights).first(number), pixels,
                 {sum.data(), pixels}, cpu_kernels(set));
        EXPECT_EQ(sum, expected) << name_of(set) << ", " << number << " rows";
      }
    }
  }
}

// Pixels of a row, each made of `taps` of another one and `apart` from the next.
void expect_pixels_alike(std::size_t pixels, std::size_t number, double apart, bool mirrored) {
  RandomStream random{3};
  const auto width =
      static_cast<std::size_t>(apart * static_cast<double>(pixels)) + number + kernels::kBehindRow;
  std::vector<float> row(3 * width);
  for (float& value : row) value = static_cast<float>(random.fraction());
  const ColourScale scale{.mean = {0.1F, 0.2F, 0.3F}, .factor = {2, 3, 4}};
  PixelTaps taps{.weights = std::vector<float>(number * pixels), .taps = number};
  for (float& weight : taps.weights) weight = static_cast<float>(random.fraction());
  std::vector<float> expected(3 * pixels);
  for (std::size_t x = 0; x < pixels; ++x) {
    const auto place = static_cast<double>(mirrored ? pixels - 1 - x : x);
    taps.offsets.push_back(static_cast<std::int32_t>(apart * place));
    for (std::size_t colour = 0; colour < 3; ++colour) {
      const std::size_t first = colour * width + static_cast<std::size_t>(taps.offsets.back());
      float sum = taps.weights[x] * row[first];
      for (std::size_t i = 1; i < number; ++i) {
        sum += taps.weights[i * pixels + x] * row[first + i];
      }
      expected[colour * pixels + x] =
          (std::min(sum, 1.0F) - scale.mean[colour]) * scale.factor[colour];
    }
  }
  for (const InstructionSet set : supported_instruction_sets()) {
    std::vector<float> sums(3 * pixels);
    add_pixels({row.data(), width}, taps, scale, {sums.data(), pixels}, cpu_kernels(set));
    EXPECT_EQ(sums, expected) << name_of(set) << ", " << number << " taps, " << apart << " apart"
                              << (mirrored ? ", mirrored" : "");
  }
}

TEST(Rows, GiveTheirPixelsAlikeOnEveryInstructionSet) {
  for (const std::size_t pixels : {39U, 5U}) {
    for (const std::size_t number : {1U, 2U, 3U, 4U, 9U}) {
      for (const double apart : {0.0, 0.3, 1.0, 1.4, 1.9, 2.0, 3.7, 11.0}) {
        for (const bool mirrored : {false, true}) {
          expect_pixels_alike(pixels, number, apart, mirrored);
        }
      }
    }
  }
}

}  // namespace
}  // namespace daso
