// SPDX-License-Identifier: Apache-2.0
#include "daso/run/device_feed.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/dataset.h"
#include "daso/data/loader.h"
#include "late_lane.h"
#include "run_ranks.h"

namespace daso {
namespace {

using test::late_lane;
using test::run_ranks;

constexpr int kBatches = 6;

// Batch i is i, four times.
class Counting {
 public:
  Batch next() {
    if (taken == broken) throw std::runtime_error("a bad file");
    const at::Tensor number = at::full({4}, taken++, at::kLong);
    return {.inputs = number.to(at::kFloat), .labels = number};
  }
  std::int64_t ready() const { return taken < kBatches ? ahead : 0; }

  int taken = 0;
  int ahead = 1;
  int broken = -1;
};

void expect_batch(const Batch& batch, int number) {
  EXPECT_TRUE(at::equal(batch.labels, at::full({4}, number, at::kLong))) << number;
  EXPECT_TRUE(at::equal(batch.inputs, at::full({4}, number, at::kFloat))) << number;
}

void with_late_feed(const std::function<void(DeviceFeed&)>& act) {
  run_ranks({.ranks = 1}, [&](World& world) {
    DeviceFeed feed(world, at::kCPU, late_lane());
    act(feed);
  });
}

TEST(DeviceFeed, TakesOneBatchAheadAndNoneBehindTheLast) {
  with_late_feed([](DeviceFeed& feed) {
    Counting source;
    feed.start(source, 3);
    for (int i = 0; i < 3; ++i) {
      expect_batch(feed.next(), i);
      EXPECT_EQ(source.taken, std::min(i + 2, 3));
    }
  });
}

TEST(DeviceFeed, TakesNoneAheadThatItWouldWaitFor) {
  with_late_feed([](DeviceFeed& feed) {
    Counting source;
    source.ahead = 0;
    feed.start(source, kBatches);
    for (int i = 0; i < kBatches; ++i) {
      expect_batch(feed.next(), i);
      EXPECT_EQ(source.taken, i + 1);
    }
  });
}

TEST(DeviceFeed, LeavesBatchesWhereTheyAreOnTheCpu) {
  run_ranks({.ranks = 1}, [](World& world) {
    DeviceFeed feed(world, at::kCPU);
    Counting source;
    feed.start(source, kBatches);
    expect_batch(feed.next(), 0);
    EXPECT_EQ(source.taken, 1);
  });
}

// The one before it is good, and is trained with.
TEST(DeviceFeed, ThrowsWhenItIsTheTurnOfTheBatch) {
  with_late_feed([](DeviceFeed& feed) {
    Counting source;
    source.broken = 2;
    feed.start(source, kBatches);
    expect_batch(feed.next(), 0);
    expect_batch(feed.next(), 1);
    EXPECT_THROW(feed.next(), std::runtime_error);
    EXPECT_THROW(feed.next(), std::runtime_error);
    source.broken = -1;
    expect_batch(feed.next(), 2);
  });
}

TEST(DeviceFeed, LeavesAloneWhatSomebodyHolds) {
  with_late_feed([](DeviceFeed& feed) {
    Counting source;
    feed.start(source, kBatches);
    std::vector<Batch> all;
    for (int i = 0; i < kBatches; ++i) all.push_back(feed.next());
    for (int i = 0; i < kBatches; ++i) expect_batch(all[static_cast<std::size_t>(i)], i);
  });
}

TEST(DeviceFeed, BeginsAnotherSequenceInTheMiddleOfOne) {
  with_late_feed([](DeviceFeed& feed) {
    Counting first;
    feed.start(first, kBatches);
    expect_batch(feed.next(), 0);
    Counting second;
    second.taken = 3;
    feed.start(second, 2);
    expect_batch(feed.next(), 3);
    expect_batch(feed.next(), 4);
  });
}

// Copies at once, and its marks are reached when the test says so.
class Gated final : public Lane {
 public:
  struct Mark final : LaneMark {
    explicit Mark(const bool& gate) : is_open(gate) {}
    bool reached() const override { return is_open; }
    const bool& is_open;
  };

  explicit Gated(const bool& gate) : gate_(gate) {}
  bool copies() const override { return true; }
  std::shared_ptr<LaneMark> mark_of_caller() override { return std::make_shared<Mark>(gate_); }
  void follow(const LaneMark& /*mark*/) override {}
  std::shared_ptr<LaneMark> mark() override { return std::make_shared<Mark>(gate_); }
  void lead_caller() override {}
  std::shared_ptr<LaneMark> moment_of_caller() override { return mark_of_caller(); }
  std::shared_ptr<LaneMark> moment() override { return mark(); }
  at::Tensor host_room(const at::Tensor& like) override { return at::empty_like(like); }
  void copy(const at::Tensor& to, const at::Tensor& from) override { to.copy_(from); }
  void run(const std::function<void()>& work) override { work(); }

 private:
  const bool& gate_;
};

// Of a pool, as those of loaders are. Knows where all of them lay.
class Pooled {
 public:
  Batch next() {
    Batch batch = pool_.take(2);
    places.insert(batch.inputs.const_data_ptr());
    return batch;
  }
  std::int64_t ready() const { return 0; }

  std::set<const void*> places;

 private:
  BatchPool pool_{{.channels = 1, .height = 2, .width = 2}};
};

TEST(DeviceFeed, HoldsTheHostsMemoryUntilItIsCopied) {
  run_ranks({.ranks = 1}, [](World& world) {
    bool gate = false;
    DeviceFeed feed(world, at::kCPU, std::make_unique<Gated>(gate));
    Pooled source;
    feed.start(source, 100);
    for (int i = 0; i < 3; ++i) feed.next();
    EXPECT_EQ(source.places.size(), 3U);
    gate = true;
    for (int i = 0; i < 20; ++i) feed.next();
    EXPECT_LE(source.places.size(), 4U);
  });
}

TEST(DeviceFeed, UsesTwoBuffersByTurns) {
  run_ranks({.ranks = 1}, [](World& world) {
    const bool gate = true;
    DeviceFeed feed(world, at::kCPU, std::make_unique<Gated>(gate));
    Counting source;
    feed.start(source, kBatches);
    std::vector<const void*> places;
    for (int i = 0; i < kBatches; ++i) places.push_back(feed.next().inputs.const_data_ptr());
    EXPECT_NE(places[0], places[1]);
    for (std::size_t i = 2; i < places.size(); ++i) EXPECT_EQ(places[i], places[i - 2]);
  });
}

TEST(DeviceFeed, DoesNotWaitForADeviceForEver) {
  const auto feed_without_end = [](World& world) {
    const bool gate = false;
    DeviceFeed feed(world, at::kCPU, std::make_unique<Gated>(gate));
    Pooled source;
    feed.start(source, 100);
    for (int i = 0; i < 100; ++i) feed.next();
  };
  EXPECT_THROW(run_ranks({.ranks = 1, .limit = Seconds(1)}, feed_without_end), PeerError);
}

// Two epochs of raw images, the first of them left in the middle and begun again there.
TEST(DeviceFeed, GivesTheInputsThatACpuTrainsWith) {
  const auto data = open_data("synthetic:train=22,size=11").train;
  LoaderOptions options{.shard = {.examples = data->size(), .ranks = 1, .batch_size = 3, .seed = 5},
                        .threads = 2,
                        .augment = Augment::kCropFlip,
                        .normalisation = normalisation_of(data)};
  Loader expected(data, options);
  options.raw = true;
  options.pinned = true;
  Loader raw(data, options);
  with_late_feed([&](DeviceFeed& feed) {
    for (const auto& [epoch, first, end] :
         std::vector<std::array<int, 3>>{{0, 0, 4}, {0, 4, 7}, {1, 0, 7}}) {
      expected.start(epoch, first);
      raw.start(epoch, first);
      feed.start(raw, raw.batches() - first);
      for (int i = first; i < end; ++i) {
        const Batch batch = feed.next();
        const Batch other = expected.next();
        EXPECT_TRUE(at::equal(batch.inputs.view(at::kInt), other.inputs.view(at::kInt))) << i;
        EXPECT_TRUE(at::equal(batch.labels, other.labels)) << i;
      }
    }
  });
}

}  // namespace
}  // namespace daso
