// SPDX-License-Identifier: Apache-2.0
#include "daso/data/synthetic.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "daso/base/error.h"
#include "data/data_files.h"

namespace daso {
namespace {

using test::refusal;
using Floats = std::vector<float>;

Floats image_of(const Dataset& dataset, std::int64_t index) {
  Floats image(static_cast<std::size_t>(dataset.shape().elements()));
  as_images(dataset).read(index, image);
  return image;
}

TEST(Synthetic, HasTheSizesThatAreAskedFor) {
  const Datasets plain = open_data("synthetic");
  EXPECT_EQ(plain.train->size(), 4096);
  EXPECT_EQ(plain.test->size(), 1024);
  EXPECT_EQ(plain.train->classes(), 10);
  EXPECT_EQ(plain.train->shape(), InputShape{});
  const Datasets other = open_data("synthetic:train=7,test=5,classes=3,size=9,channels=1");
  EXPECT_EQ(other.train->size(), 7);
  EXPECT_EQ(other.test->size(), 5);
  EXPECT_EQ(other.test->classes(), 3);
  EXPECT_EQ(other.test->shape(), (InputShape{.channels = 1, .height = 9, .width = 9}));
}

TEST(Synthetic, HasAsManyExamplesOfEachClass) {
  const Datasets data = open_data("synthetic:train=100,size=8");
  std::array<int, 10> counts{};
  Floats image(192);  // 3 x 8 x 8
  for (std::int64_t i = 0; i < 100; ++i) {
    ++counts.at(static_cast<std::size_t>(as_images(*data.train).read(i, image)));
    for (const float value : image) EXPECT_TRUE(value >= 0 && value <= 1);
  }
  for (const int count : counts) EXPECT_EQ(count, 10);
}

TEST(Synthetic, DependsOnSeedPartAndIndexAlone) {
  const Datasets data = open_data("synthetic");
  EXPECT_EQ(image_of(*data.train, 3), image_of(*open_data("synthetic:train=10").train, 3));
  EXPECT_NE(image_of(*data.train, 3), image_of(*data.train, 13));  // of the same class
  EXPECT_NE(image_of(*data.train, 3), image_of(*data.test, 3));
  EXPECT_NE(image_of(*data.train, 3), image_of(*open_data("synthetic:seed=2").train, 3));
}

// The best a linear model can hope for is a difference between the means of classes. All are gray
// here: over 400 examples of a class no pixel's mean leaves gray by more than chance does.
TEST(Synthetic, HasTheSameMeanInAllClasses) {
  constexpr int kExamples = 400;
  const Datasets data = open_data("synthetic");
  for (int label = 0; label < 10; ++label) {
    std::vector<double> sums(3072);
    for (int i = 0; i < kExamples; ++i) {
      const Floats image = image_of(*data.train, 10 * i + label);
      for (std::size_t at = 0; at < image.size(); ++at) sums[at] += image[at];
    }
    // A value's standard deviation is below 0.5, whatever its distribution over 0 ... 1.
    for (const double sum : sums) EXPECT_NEAR(sum / kExamples, 0.5, 5 * 0.5 / 20);
  }
}

TEST(Synthetic, HasAsMuchNoiseAsAskedFor) {
  // The same example with and without it; so little that no value is cut off at 0 or 1.
  const Floats without = image_of(*open_data("synthetic:noise=0").train, 5);
  const Floats with = image_of(*open_data("synthetic:noise=0.05").train, 5);
  double squares = 0;
  for (std::size_t i = 0; i < with.size(); ++i) {
    const double difference = with[i] - without[i];
    squares += difference * difference;
  }
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(with.size())), 0.05, 0.004);
}

TEST(Synthetic, RefusesWhatItDoesNotKnow) {
  const auto says = [](const std::string& text, const std::string& part) {
    const std::string message = refusal([&] { open_data(text); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says("synthetic:trian=5", "did you mean 'train'?");
  says("synthetic:colour=5", "it has noise, train, test");
  says("synthetic:train", "'train' is not key=value");
  says("synthetic:train=5,,test=1", "'' is not key=value");
  says("synthetic:train=0", "train must be a whole number in 1 ... ");
  says("synthetic:train=1e3", "got '1e3'");
  says("synthetic:classes=1", "classes must be");
  says("synthetic:noise=-0.1", "noise must lie in 0 ... 1");
  says("synthetic:noise=nan", "noise must lie in 0 ... 1");
  says("synthetic:noise=0.1x", "noise must lie in 0 ... 1");
  says("synthetic:seed=1,seed=2", "seed is given twice");
  says("synthetic:classes=1000,size=1024,channels=64", "too large");
  says("synthetc", "did you mean 'synthetic'?");
  says("imagenet:/x", "kinds: synthetic, idx:DIR, cifar10:DIR");
  says("", "there is no data of kind ''");
}

}  // namespace
}  // namespace daso
