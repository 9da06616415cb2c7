// SPDX-License-Identifier: Apache-2.0
#include "daso/data/loader.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "daso/base/error.h"
#include "daso/data/synthetic.h"
#include "gate.h"
#include "process.h"

namespace daso {
namespace {

using test::Gate;
using test::holds_within;

// Images whose values and class tell which example they are; `before_read` may do what disks do.
class Numbered : public ImageDataset {
 public:
  explicit Numbered(std::int64_t size, InputShape shape = {.channels = 1, .height = 2, .width = 2})
      : size_(size), shape_(shape) {}
  std::int64_t size() const override { return size_; }
  InputShape shape() const override { return shape_; }
  int classes() const override { return 1000; }
  int read(std::int64_t index, std::span<float> input) const override {
    before_read(index);
    ++reads;
    std::ranges::fill(input, static_cast<float>(index));
    return static_cast<int>(index);
  }

  std::function<void(std::int64_t)> before_read = [](std::int64_t) {};
  mutable std::atomic<int> reads = 0;

 private:
  std::int64_t size_;
  InputShape shape_;
};

LoaderOptions options_for(const Dataset& dataset, int batch_size) {
  return {.shard = {.examples = dataset.size(), .ranks = 1, .batch_size = batch_size, .seed = 1},
          .limit = Seconds(20)};
}

std::vector<Batch> take(Loader& loader, std::int64_t count) {
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < count; ++i) batches.push_back(loader.next());
  return batches;
}

void expect_equal(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i].inputs, b[i].inputs)) << i;
    EXPECT_TRUE(at::equal(a[i].labels, b[i].labels)) << i;
  }
}

std::int64_t label(const Batch& batch, int position) {
  return batch.labels[position].item<std::int64_t>();
}

TEST(Loader, GivesTheExamplesOfTheShard) {
  const auto dataset = std::make_shared<Numbered>(23);
  LoaderOptions options = options_for(*dataset, 3);
  options.shard.ranks = 2;
  options.rank = 1;
  Loader loader(dataset, options);
  EXPECT_EQ(loader.batches(), 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    const std::vector<std::int64_t> shard = shard_of(options.shard, epoch, 1);
    loader.start(epoch);
    std::size_t at = 0;
    for (const Batch& batch : take(loader, 3)) {
      EXPECT_EQ(batch.inputs.sizes(), (std::vector<std::int64_t>{3, 1, 2, 2}));
      for (int i = 0; i < 3; ++i, ++at) {
        EXPECT_EQ(label(batch, i), shard[at]);
        EXPECT_TRUE(at::equal(batch.inputs[i], at::full({1, 2, 2}, static_cast<float>(shard[at]))));
      }
    }
  }
}

TEST(Loader, GivesTheSameWithAnyNumberOfThreads) {
  const auto data = open_synthetic({.train = 60, .test = 1, .size = 16}).train;
  LoaderOptions options = options_for(*data, 7);
  options.augment = Augment::kCropFlip;
  options.normalisation = normalisation_of(data);
  std::optional<std::vector<Batch>> first;
  for (const int threads : {1, 2, 5}) {
    options.threads = threads;
    options.ahead = threads;
    Loader loader(data, options);
    loader.start(4);
    const std::vector<Batch> batches = take(loader, loader.batches());
    if (!first) first = batches;
    expect_equal(*first, batches);
  }
}

TEST(Loader, GoesOnFromTheMiddleAsIfItHadNotStopped) {
  const auto data = open_synthetic({.train = 60, .test = 1, .size = 16}).train;
  LoaderOptions options = options_for(*data, 6);
  options.augment = Augment::kCropFlip;
  options.threads = 2;
  Loader whole(data, options);
  whole.start(3);
  std::vector<Batch> batches = take(whole, 10);
  for (const std::int64_t from : {0, 4, 9, 10}) {
    Loader resumed(data, options);
    resumed.start(3, from);
    expect_equal({batches.begin() + from, batches.end()}, take(resumed, 10 - from));
  }
}

TEST(Loader, BeginsAnotherEpochInTheMiddleOfOne) {
  const auto dataset = std::make_shared<Numbered>(40);
  LoaderOptions options = options_for(*dataset, 4);
  options.threads = 3;
  Loader loader(dataset, options);
  for (int epoch = 0; epoch < 50; ++epoch) {
    loader.start(epoch);
    const std::vector<std::int64_t> shard = shard_of(options.shard, epoch, 0);
    for (int taken = 0; taken <= epoch % 4; ++taken) {
      EXPECT_EQ(label(loader.next(), 0), shard[static_cast<std::size_t>(4 * taken)]);
    }
  }
}

TEST(Loader, AsksForAnEpochFirst) {
  const auto dataset = std::make_shared<Numbered>(8);
  Loader loader(dataset, options_for(*dataset, 4));
  EXPECT_THROW(loader.next(), std::logic_error);
  loader.start(0);
  take(loader, 2);
  EXPECT_THROW(loader.next(), std::logic_error);
  EXPECT_THROW(loader.start(0, 3), std::logic_error);
}

TEST(Loader, PassesOnWhatReadingThrew) {
  const auto dataset = std::make_shared<Numbered>(40);
  LoaderOptions options = options_for(*dataset, 4);
  options.threads = 2;
  const std::int64_t broken = shard_of(options.shard, 0, 0)[9];  // in batch 2
  dataset->before_read = [broken](std::int64_t index) {
    if (index == broken) throw ConfigError("file x is damaged");
  };
  Loader loader(dataset, options);
  loader.start(0);
  take(loader, 2);
  EXPECT_THROW(loader.next(), ConfigError);
  EXPECT_THROW(loader.next(), ConfigError);  // it does not go away
  loader.start(0, 3);
  EXPECT_NO_THROW(loader.next());
}

TEST(Loader, RefusesAClassThatTheDatasetDoesNotHave) {
  const auto dataset = std::make_shared<Numbered>(1001);
  LoaderOptions options = options_for(*dataset, 1001);
  Loader loader(dataset, options);
  loader.start(0);
  EXPECT_THROW(loader.next(), ConfigError);
}

TEST(Loader, TurnsAReadThatHangsIntoAnError) {
  const auto gate = std::make_shared<Gate>();
  const auto dataset = std::make_shared<Numbered>(8);
  dataset->before_read = [gate](std::int64_t) { gate->pass(); };
  LoaderOptions options = options_for(*dataset, 4);
  options.limit = Seconds(0.05);
  Loader loader(dataset, options);
  loader.start(5);
  try {
    loader.next();
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("batch 0 of epoch 5"), std::string::npos);
  }
  gate->open();
}

// As if the server of a network's disk were gone: whether or not somebody waits for the batch.
TEST(Loader, LeavesAReadThatHangsToItself) {
  for (const bool awaited : {true, false}) {
    const auto gate = std::make_shared<Gate>();
    auto dataset = std::make_shared<Numbered>(8);
    dataset->before_read = [gate](std::int64_t) { gate->pass(); };
    const std::weak_ptr<Numbered> in_use = dataset;
    LoaderOptions options = options_for(*dataset, 4);
    options.limit = Seconds(0.05);
    auto loader = std::make_unique<Loader>(std::move(dataset), options);
    loader->start(0);
    ASSERT_TRUE(holds_within(Seconds(20), [&] { return gate->waiting() == 1; }));
    if (awaited) {
      EXPECT_THROW(loader->next(), Error);
    }
    loader.reset();
    EXPECT_FALSE(in_use.expired());  // the thread that reads still has it
    gate->open();
    EXPECT_TRUE(holds_within(Seconds(20), [&] { return in_use.expired(); }));
  }
}

TEST(Normalisation, OfADatasetThatHangsIsAnError) {
  const auto gate = std::make_shared<Gate>();
  const auto dataset = std::make_shared<Numbered>(600);
  dataset->before_read = [gate](std::int64_t index) {
    if (index == 300) gate->pass();
  };
  try {
    normalisation_of(dataset, Seconds(1));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("reading examples 256 ... 511 to normalise by"), 0U)
        << error.what();
  }
  gate->open();
}

TEST(Loader, EndsAfterTheExamplesInWorkNotAfterTheirBatches) {
  const auto dataset = std::make_shared<Numbered>(1000);
  dataset->before_read = [](std::int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a slow disk
  };
  LoaderOptions options = options_for(*dataset, 500);
  options.threads = 2;
  auto loader = std::make_unique<Loader>(dataset, options);
  loader->start(0);
  ASSERT_TRUE(holds_within(Seconds(20), [&] { return dataset->reads >= 2; }));
  const int before = dataset->reads;
  loader.reset();
  EXPECT_LT(dataset->reads - before, 50);  // the batches have 1000
}

TEST(Loader, KeepsNoMoreThanAskedReady) {
  const auto dataset = std::make_shared<Numbered>(400);
  LoaderOptions options = options_for(*dataset, 4);
  options.threads = 2;
  options.ahead = 5;
  Loader loader(dataset, options);
  EXPECT_EQ(loader.ready(), 0);
  loader.start(0);
  for (int taken = 0; taken < 10; ++taken) {
    EXPECT_TRUE(holds_within(Seconds(20), [&] { return loader.ready() == 5; }));
    EXPECT_EQ(dataset->reads, 4 * (taken + 5));
    loader.next();
  }
}

// How many of 40 batches were not ready when a consumer of 8 ms a batch asked for them. An example
// takes 2 ms to read and a batch has 8, so one thread delivers a batch in 16 ms, four in 4 ms.
int starved(int threads) {
  const auto dataset = std::make_shared<Numbered>(320);
  dataset->before_read = [](std::int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // a slow disk
  };
  LoaderOptions options = options_for(*dataset, 8);
  options.threads = threads;
  options.ahead = 2 * threads;
  Loader loader(dataset, options);
  loader.start(0);
  loader.next();
  int count = 0;
  for (int batch = 1; batch < 40; ++batch) {
    std::this_thread::sleep_for(std::chrono::milliseconds(8));  // the training step
    if (loader.ready() == 0) ++count;
    loader.next();
  }
  return count;
}

TEST(Loader, DoesNotStarveTheTrainingThreadWhenTheDatasetIsSlow) {
  EXPECT_LE(starved(4), 4);
  EXPECT_GE(starved(1), 20);  // so the measure can tell
}

TEST(Loader, RefusesOptionsThatDoNotFit) {
  const auto dataset = std::make_shared<Numbered>(8);
  const auto refuses = [&](auto change) {
    LoaderOptions options = options_for(*dataset, 4);
    change(options);
    EXPECT_THROW(Loader(dataset, options), ConfigError);
  };
  refuses([](LoaderOptions& o) { o.shard.examples = 9; });
  refuses([](LoaderOptions& o) { o.shard.batch_size = 9; });
  refuses([](LoaderOptions& o) { o.rank = 1; });
  refuses([](LoaderOptions& o) { o.threads = 0; });
  refuses([](LoaderOptions& o) { o.ahead = 0; });
  refuses([](LoaderOptions& o) { o.normalisation = {.mean = {0, 0}, .deviation = {1, 1}}; });
  refuses([](LoaderOptions& o) { o.normalisation = {.mean = {0}, .deviation = {0}}; });
}

}  // namespace
}  // namespace daso
