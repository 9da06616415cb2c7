// SPDX-License-Identifier: Apache-2.0
#include "daso/data/evaluation_loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "daso/base/error.h"
#include "gate.h"
#include "process.h"

namespace daso {
namespace {

// 11 images of two channels: index and 7.
class SlowRamp : public ImageDataset {
 public:
  std::int64_t size() const override { return 11; }
  InputShape shape() const override { return {.channels = 2, .height = 1, .width = 2}; }
  int classes() const override { return 11; }
  int read(std::int64_t index, std::span<float> input) const override {
    if (index == broken) throw ConfigError("file x is damaged");
    if (gate) gate->pass();
    const auto value = static_cast<float>(index);
    std::ranges::copy(std::vector<float>{value, value, 7, 7}, input.begin());
    return static_cast<int>(index);
  }

  std::int64_t broken = -1;
  std::shared_ptr<test::Gate> gate;
};

using Labels = std::vector<std::int64_t>;

// Appends the labels of a rank's whole part, and looks at its batches.
void follow(EvaluationLoader& loader, int batch_size, Labels& seen) {
  loader.start();
  for (std::int64_t number = 0; number < loader.batches(); ++number) {
    const Batch batch = loader.next();
    EXPECT_LE(batch.labels.size(0), batch_size);
    EXPECT_EQ(batch.inputs.size(0), batch.labels.size(0));
    for (std::int64_t i = 0; i < batch.labels.size(0); ++i) {
      seen.push_back(batch.labels[i].item<std::int64_t>());
      EXPECT_EQ(batch.inputs[i][0][0][1].item<float>(), static_cast<float>(seen.back()));
    }
  }
}

TEST(EvaluationLoader, HasEveryExampleOnExactlyOneRankEveryTime) {
  const Labels all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const auto data = std::make_shared<SlowRamp>();
  for (int ranks = 1; ranks <= 13; ++ranks) {
    for (const int batch_size : {1, 2, 3, 20}) {
      std::vector<Labels> seen(2);  // twice
      for (int rank = 0; rank < ranks; ++rank) {
        EvaluationLoader loader(
            data,
            {.batch_size = batch_size, .rank = rank, .ranks = ranks, .threads = 1 + rank % 3});
        for (Labels& one : seen) follow(loader, batch_size, one);
      }
      EXPECT_EQ(seen[0], all);
      EXPECT_EQ(seen[1], all);
    }
  }
}

TEST(EvaluationLoader, BeginsAgainInTheMiddle) {
  EvaluationLoader loader(std::make_shared<SlowRamp>(), {.batch_size = 2, .threads = 3});
  for (int taken = 0; taken < 6; ++taken) {
    loader.start();
    for (int i = 0; i < taken; ++i) {
      EXPECT_EQ(loader.next().labels[0].item<std::int64_t>(), 2 * i);
    }
  }
}

TEST(EvaluationLoader, Normalises) {
  EvaluationLoader loader(
      std::make_shared<SlowRamp>(),
      {.batch_size = 11, .normalisation = {.mean = {1, 7}, .deviation = {2, 3}}});
  loader.start();
  const Batch batch = loader.next();
  EXPECT_EQ(batch.inputs[10][0][0][0].item<float>(), 4.5F);
  EXPECT_EQ(batch.inputs[10][1][0][0].item<float>(), 0.0F);
}

TEST(EvaluationLoader, PassesOnWhatReadingThrew) {
  const auto data = std::make_shared<SlowRamp>();
  data->broken = 7;
  EvaluationLoader loader(data, {.batch_size = 4});
  loader.start();
  EXPECT_NO_THROW(loader.next());
  EXPECT_THROW(loader.next(), ConfigError);
}

TEST(EvaluationLoader, LeavesAReadThatHangsToItself) {
  const auto gate = std::make_shared<test::Gate>();
  auto data = std::make_shared<SlowRamp>();
  data->gate = gate;
  const std::weak_ptr<SlowRamp> in_use = data;
  auto loader = std::make_unique<EvaluationLoader>(
      std::move(data), EvaluationOptions{.batch_size = 4, .limit = Seconds(0.05)});
  loader->start();
  ASSERT_TRUE(test::holds_within(Seconds(20), [&] { return gate->waiting() == 1; }));
  EXPECT_THROW(loader->next(), Error);
  loader.reset();
  EXPECT_FALSE(in_use.expired());  // the thread that reads still has it
  gate->open();
  EXPECT_TRUE(test::holds_within(Seconds(20), [&] { return in_use.expired(); }));
}

TEST(EvaluationLoader, RefusesOptionsThatDoNotFit) {
  const auto data = std::make_shared<SlowRamp>();
  const auto make = [&](const EvaluationOptions& options) { EvaluationLoader(data, options); };
  EXPECT_THROW(make({.batch_size = 0}), ConfigError);
  EXPECT_THROW(make({.threads = 0}), ConfigError);
  EXPECT_THROW(make({.normalisation = {.mean = {0}, .deviation = {1}}}), ConfigError);
  EXPECT_NO_THROW(make({}));
}

}  // namespace
}  // namespace daso
