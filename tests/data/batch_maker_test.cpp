// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "daso/base/error.h"
#include "daso/data/batch.h"

namespace daso {
namespace {

using Floats = std::vector<float>;

constexpr InputShape kSmall = {.channels = 1, .height = 2, .width = 3};

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
  // Moved, then mirrored.
  EXPECT_EQ(placed(image, {.right = 1, .mirrored = true}, none), (Floats{2, 1, 0, 5, 4, 0}));
  EXPECT_EQ(placed(image, {.right = -1, .mirrored = true}, none), (Floats{0, 3, 2, 0, 6, 5}));
  EXPECT_EQ(placed(image, {.down = 1, .right = 2, .mirrored = true}, none),
            (Floats{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(placed(image, {.right = 3}, none), (Floats{0, 0, 0, 0, 0, 0}));
  // What comes in is the mean, which normalisation makes 0.
  EXPECT_EQ(placed(image, {.right = 1}, half), (Floats{0, 0, 0.5, 0, 1.5, 2}));
}

TEST(Image, IsNormalisedWhereItLiesChannelByChannel) {
  Floats image = {1, 2, 3, 4, 5, 6};
  normalise({.mean = {1, 5}, .deviation = {2, 0.5}}, image);
  EXPECT_EQ(image, (Floats{0, 0.5, 1, -2, 0, 2}));
}

Placement drawn(Augment augment, const InputShape& shape, RandomStream random) {
  return draw_placement(augment, shape, random);
}

TEST(Placement, CropsByAnEighthInAllDirections) {
  const InputShape shape = {.channels = 3, .height = 32, .width = 48};
  std::map<int, int> down;
  std::map<int, int> right;
  int mirrored = 0;
  for (std::uint64_t i = 0; i < 9000; ++i) {
    const Placement placement = drawn(Augment::kCropFlip, shape, RandomStream{1, i});
    ++down[placement.down];
    ++right[placement.right];
    mirrored += placement.mirrored ? 1 : 0;
    EXPECT_FALSE(drawn(Augment::kCrop, shape, RandomStream{1, i}).mirrored);
  }
  for (const auto& counts : {down, right}) {
    EXPECT_EQ(counts.begin()->first, -4);
    EXPECT_EQ(counts.size(), 9U);
    for (const auto& [offset, count] : counts) EXPECT_NEAR(count, 1000, 5 * 30);
  }
  EXPECT_NEAR(mirrored, 4500, 5 * 48);
}

// Two channels: index and 7.
class Ramp : public ImageDataset {
 public:
  std::int64_t size() const override { return 11; }
  InputShape shape() const override { return {.channels = 2, .height = 1, .width = 2}; }
  int classes() const override { return 11; }
  int read(std::int64_t index, std::span<float> input) const override {
    const auto value = static_cast<float>(index);
    std::ranges::copy(Floats{value, value, 7, 7}, input.begin());
    return static_cast<int>(index);
  }
};

TEST(Normalisation, IsTheMeanAndDeviationOfEachChannel) {
  const Normalisation normalisation = normalisation_of(std::make_shared<Ramp>());
  EXPECT_FLOAT_EQ(normalisation.mean[0], 5);  // of 0 ... 10
  EXPECT_FLOAT_EQ(normalisation.deviation[0], std::sqrt(10.0F));
  EXPECT_FLOAT_EQ(normalisation.mean[1], 7);
  EXPECT_FLOAT_EQ(normalisation.deviation[1], 1);  // nothing varies
}

// Known to need this.
class Known : public Ramp {
 public:
  std::optional<Normalisation> normalisation() const override {
    return Normalisation{.mean = {1, 2}, .deviation = {3, 4}};
  }
};

TEST(Normalisation, IsWhatTheDatasetKnowsOfItself) {
  const Normalisation normalisation = normalisation_of(std::make_shared<Known>());
  EXPECT_EQ(normalisation.mean, (Floats{1, 2}));
  EXPECT_EQ(normalisation.deviation, (Floats{3, 4}));
}

// Text i is 10 i, 10 i + 1 ... 10 i + 4.
class Counting : public TextDataset {
 public:
  explicit Counting(int classes = 100) : classes_(classes) {}
  std::int64_t size() const override { return 10; }
  InputShape shape() const override {
    return {.kind = InputKind::kText, .channels = 1, .height = 1, .width = 4};
  }
  int classes() const override { return classes_; }
  void read(std::int64_t index, std::span<std::int64_t> tokens) const override {
    ASSERT_EQ(tokens.size(), 5U);
    std::iota(tokens.begin(), tokens.end(), 10 * index);
  }

 private:
  int classes_;
};

TEST(Text, HasTheNextTokenAsTheLabelOfEach) {
  const Counting text;
  const Normalisation none =
      completed(normalisation_of(std::make_shared<Counting>()), text.shape());
  EXPECT_TRUE(none.mean.empty() && none.deviation.empty());
  Batch batch = empty_batch(text.shape(), 2);
  BatchFiller filler(text, none);
  filler.fill(batch, 0, 3);
  filler.fill(batch, 1, 0);
  const at::Tensor inputs = at::tensor({30, 31, 32, 33, 0, 1, 2, 3}, at::kLong).view({2, 4});
  EXPECT_TRUE(at::equal(batch.inputs, inputs));
  EXPECT_TRUE(at::equal(batch.labels, inputs + 1));
}

TEST(Text, RefusesWhatIsForImagesAndTokensOutOfRange) {
  const Counting text(34);
  EXPECT_THROW(completed({.mean = {0}, .deviation = {1}}, text.shape()), ConfigError);
  EXPECT_THROW(check_augment(Augment::kCrop, text), ConfigError);
  EXPECT_NO_THROW(check_augment(Augment::kNone, text));
  Batch batch = empty_batch(text.shape(), 1);
  const Normalisation none;
  BatchFiller filler(text, none);
  EXPECT_NO_THROW(filler.fill(batch, 0, 2));
  EXPECT_THROW(filler.fill(batch, 0, 3), ConfigError);  // its last token is 34
}

}  // namespace
}  // namespace daso
