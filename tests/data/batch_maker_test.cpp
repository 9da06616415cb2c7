// SPDX-License-Identifier: Apache-2.0
#include "daso/data/batch_maker.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "daso/base/error.h"

namespace daso {
namespace {

using Floats = std::vector<float>;

constexpr ImageShape kSmall = {.channels = 1, .height = 2, .width = 3};

Floats placed(const Floats& image, const Placement& placement, const Normalisation& how) {
  Floats out(image.size(), -99.0F);
  place_image(image, kSmall, how, placement, out);
  return out;
}

TEST(Image, IsNormalisedMovedAndMirrored) {
  const Normalisation none = {.mean = {0}, .deviation = {1}};
  const Normalisation half = {.mean = {1}, .deviation = {2}};
  const Floats image = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(placed(image, {}, none), image);
  EXPECT_EQ(placed(image, {}, half), (Floats{0, 0.5, 1, 1.5, 2, 2.5}));
  EXPECT_EQ(placed(image, {.down = 1}, none), (Floats{0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(placed(image, {.down = -1, .right = 1}, none), (Floats{0, 4, 5, 0, 0, 0}));
  EXPECT_EQ(placed(image, {.right = -2}, none), (Floats{3, 0, 0, 6, 0, 0}));
  EXPECT_EQ(placed(image, {.mirrored = true}, none), (Floats{3, 2, 1, 6, 5, 4}));
  // What comes in is the mean, which normalisation makes 0.
  EXPECT_EQ(placed(image, {.right = 1}, half), (Floats{0, 0, 0.5, 0, 1.5, 2}));
}

TEST(Placement, CropsByAnEighthInAllDirections) {
  const ImageShape shape = {.channels = 3, .height = 32, .width = 48};
  std::map<int, int> down;
  std::map<int, int> right;
  int mirrored = 0;
  for (std::uint64_t i = 0; i < 9000; ++i) {
    const Placement placement = draw_placement(Augment::kCropFlip, shape, RandomStream{1, i});
    ++down[placement.down];
    ++right[placement.right];
    mirrored += placement.mirrored ? 1 : 0;
    EXPECT_FALSE(draw_placement(Augment::kCrop, shape, RandomStream{1, i}).mirrored);
  }
  for (const auto& counts : {down, right}) {
    EXPECT_EQ(counts.begin()->first, -4);
    EXPECT_EQ(counts.size(), 9U);
    for (const auto& [offset, count] : counts) EXPECT_NEAR(count, 1000, 5 * 30);
  }
  EXPECT_NEAR(mirrored, 4500, 5 * 48);
  const Placement still = draw_placement(Augment::kNone, shape, RandomStream{1});
  EXPECT_TRUE(still.down == 0 && still.right == 0 && !still.mirrored);
}

// Two channels: index and 7.
class Ramp : public Dataset {
 public:
  std::int64_t size() const override { return 11; }
  ImageShape shape() const override { return {.channels = 2, .height = 1, .width = 2}; }
  int classes() const override { return 11; }
  int read(std::int64_t index, std::span<float> input) const override {
    const auto value = static_cast<float>(index);
    std::ranges::copy(Floats{value, value, 7, 7}, input.begin());
    return static_cast<int>(index);
  }
};

TEST(Normalisation, IsTheMeanAndDeviationOfEachChannel) {
  const Normalisation normalisation = normalisation_of(Ramp());
  EXPECT_FLOAT_EQ(normalisation.mean[0], 5);  // of 0 ... 10
  EXPECT_FLOAT_EQ(normalisation.deviation[0], std::sqrt(10.0F));
  EXPECT_FLOAT_EQ(normalisation.mean[1], 7);
  EXPECT_FLOAT_EQ(normalisation.deviation[1], 1);  // nothing varies
}

TEST(Evaluation, HasEveryExampleOnExactlyOneRank) {
  for (int ranks = 1; ranks <= 13; ++ranks) {
    for (const int batch_size : {1, 2, 3, 20}) {
      std::vector<std::int64_t> seen;
      for (int rank = 0; rank < ranks; ++rank) {
        for (const Batch& batch : evaluation_batches(Ramp(), batch_size, rank, ranks, {})) {
          EXPECT_LE(batch.labels.size(0), batch_size);
          EXPECT_EQ(batch.inputs.size(0), batch.labels.size(0));
          for (std::int64_t i = 0; i < batch.labels.size(0); ++i) {
            seen.push_back(batch.labels[i].item<std::int64_t>());
            EXPECT_EQ(batch.inputs[i][0][0][1].item<float>(), static_cast<float>(seen.back()));
          }
        }
      }
      EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
    }
  }
}

TEST(Evaluation, IsNormalised) {
  const Normalisation normalisation = {.mean = {1, 7}, .deviation = {2, 3}};
  const Batch batch = evaluation_batches(Ramp(), 11, 0, 1, normalisation).at(0);
  EXPECT_EQ(batch.inputs[10][0][0][0].item<float>(), 4.5F);
  EXPECT_EQ(batch.inputs[10][1][0][0].item<float>(), 0.0F);
  EXPECT_THROW(evaluation_batches(Ramp(), 0, 0, 1, {}), ConfigError);
}

}  // namespace
}  // namespace daso
