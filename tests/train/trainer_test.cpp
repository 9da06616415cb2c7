// SPDX-License-Identifier: Apache-2.0
#include "daso/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "daso/base/error.h"
#include "run_ranks.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A folder that is gone afterwards.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("daso-{}-{}", ::getpid(), ++number)) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  inline static int number = 0;
  fs::path path_;
};

// 8 steps an epoch on 2 ranks.
TrainOptions options_in(const fs::path& out) {
  TrainOptions options;
  options.data = "synthetic:train=256,test=64,size=8,channels=1";
  options.model = "mlp";
  options.epochs = 3;
  options.batch_size = 16;
  options.out = out;
  options.keep = 1000;
  return options;
}

const std::vector<std::string> kTwoNodes = {"a", "b"};

void nothing(const Progress&) {}

// What ranks end with; the interrupt comes on rank 1 after this many of its steps.
std::vector<Summary> train(const TrainOptions& options,
                           const std::vector<std::string>& nodes = kTwoNodes,
                           std::optional<int> interrupted_after = std::nullopt) {
  std::vector<Summary> summaries(nodes.size());
  run_ranks({.ranks = static_cast<int>(nodes.size()), .nodes = nodes}, [&](World& world) {
    Trainer trainer(world, options);
    int asked = 0;
    const auto interrupted = [&]() -> std::optional<int> {
      const bool now = world.rank() == 1 && interrupted_after && ++asked > *interrupted_after;
      return now ? std::optional(SIGTERM) : std::nullopt;
    };
    summaries[static_cast<std::size_t>(world.rank())] = trainer.run(nothing, interrupted);
  });
  return summaries;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Of the last checkpoint: parameters and optimizer, and what rank 1 has of its own.
std::string result_in(const fs::path& out) {
  const fs::path newest = newest_checkpoint(out / "checkpoints").value();
  return bytes_of(newest / "node-0.safetensors") + bytes_of(newest / "node-1.safetensors") +
         bytes_of(newest / "rank-1.safetensors");
}

struct Kind {
  std::string strategy;
  std::optional<Wire> wire;
  std::string optimizer = "sgd";
};

class Training : public testing::TestWithParam<Kind> {
 protected:
  static TrainOptions options(const fs::path& out) {
    TrainOptions options = options_in(out);
    options.strategy = GetParam().strategy;
    options.wire = GetParam().wire;
    options.optimizer.name = GetParam().optimizer;
    options.warmup_epochs.reset();
    if (options.strategy == "daso" || options.strategy == "local") {
      options.schedule = ScheduleKind::kFixed;
      options.skip = 3;
      options.warmup_epochs = 1;
    }
    if (options.strategy == "daso") options.wait = 2;
    return options;
  }
};

TEST_P(Training, GoesOnFromACheckpointWithTheSameBytes) {
  const Folder whole;
  TrainOptions options = Training::options(whole.path());
  options.checkpoint_every = Every{.number = 3, .unit = Every::Unit::kSteps};
  train(options);
  const std::string expected = result_in(whole.path());
  EXPECT_GT(expected.size(), 10000U);
  for (const int step : {3, 9, 12, 15, 21}) {
    const Folder rest;
    TrainOptions resumed = Training::options(rest.path());
    resumed.resume = true;
    resumed.resume_from = whole.path() / "checkpoints" / fmt::format("step-{:09}", step);
    train(resumed);
    EXPECT_TRUE(result_in(rest.path()) == expected) << "from step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Training,
                         testing::Values(Kind{"none", {}}, Kind{"node", {}}, Kind{"sync", {}},
                                         Kind{"local", {}}, Kind{"daso", Wire::kFp32},
                                         Kind{"daso", Wire::kBf16}, Kind{"daso", Wire::kFp16},
                                         Kind{"daso", Wire::kInt8},
                                         Kind{"daso", Wire::kInt8, "adamw"},
                                         Kind{"sync", {}, "adamw"}));

TEST(Trainer, StopsAllRanksAtTheSameStepAndGoesOn) {
  const Folder whole;
  const Folder halves;
  train(options_in(whole.path()));
  TrainOptions options = options_in(halves.path());
  const std::vector<Summary> stopped = train(options, kTwoNodes, /*interrupted_after=*/4);
  EXPECT_EQ(stopped[0].steps, stopped[1].steps);
  EXPECT_LT(stopped[0].steps, 24);
  options.resume = true;
  const std::vector<Summary> done = train(options);
  EXPECT_EQ(done[0].steps, 24);
  EXPECT_TRUE(result_in(halves.path()) == result_in(whole.path()));
}

TEST(Trainer, AccumulationEqualsALargerBatch) {
  const Folder one;
  const Folder two;
  TrainOptions options = options_in(one.path());
  options.strategy = "sync";
  const double whole = train(options)[0].train_loss;
  options.out = two.path();
  options.batch_size = 8;
  options.accumulate = 2;
  EXPECT_NEAR(train(options)[0].train_loss, whole, 1e-4);
}

TEST(Trainer, AnotherNumberOfRanksGoesOnFromAnEpochsBeginning) {
  const Folder first;
  TrainOptions options = options_in(first.path());
  options.checkpoint_every = Every{.number = 4, .unit = Every::Unit::kSteps};
  train(options);
  const Folder second;
  options.out = second.path();
  options.resume = true;
  options.resume_from = first.path() / "checkpoints" / "step-000000008";
  EXPECT_EQ(train(options, {"a", "a", "b", "b"})[0].epochs, 3);
  options.resume_from = first.path() / "checkpoints" / "step-000000012";
  EXPECT_THROW(train(options, {"a", "a", "b", "b"}), ConfigError);
}

TEST(Checkpoint, TheNewestCompleteOneCountsAndOldOnesGo) {
  const Folder folder;
  TrainOptions options = options_in(folder.path());
  options.checkpoint_every = Every{.number = 1, .unit = Every::Unit::kEpochs};
  options.keep = 2;
  train(options);
  const fs::path checkpoints = folder.path() / "checkpoints";
  EXPECT_EQ(newest_checkpoint(checkpoints), checkpoints / "step-000000024");
  EXPECT_TRUE(fs::exists(checkpoints / "step-000000016"));
  EXPECT_FALSE(fs::exists(checkpoints / "step-000000008"));
  fs::remove(checkpoints / "step-000000024" / "manifest.json");  // as if killed while writing
  EXPECT_EQ(newest_checkpoint(checkpoints), checkpoints / "step-000000016");
}

TEST(Checkpoint, DamagedPartsAreRefusedByName) {
  const Folder folder;
  TrainOptions options = options_in(folder.path());
  train(options);
  const fs::path checkpoint = newest_checkpoint(folder.path() / "checkpoints").value();
  const fs::path part = checkpoint / "rank-0.safetensors";
  const std::string whole = bytes_of(part);
  options.resume = true;
  for (const std::size_t place : {std::size_t{3}, whole.size() / 2, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[place] = static_cast<char>(damaged[place] ^ 4);
    std::ofstream(part, std::ios::binary) << damaged;
    try {
      train(options);
      FAIL() << "byte " << place << " was changed and nobody noticed";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank-0.safetensors is damaged"));
    }
  }
  std::ofstream(part, std::ios::binary) << whole.substr(0, whole.size() - 1);
  EXPECT_ANY_THROW(train(options));
}

TEST(Options, TextsOfEveryAreUnderstoodOrRefused) {
  EXPECT_EQ(parse_every("--f", "5steps"), (Every{5, Every::Unit::kSteps}));
  EXPECT_EQ(parse_every("--f", "1epochs"), (Every{1, Every::Unit::kEpochs}));
  EXPECT_EQ(parse_every("--f", "10minutes"), (Every{10, Every::Unit::kMinutes}));
  EXPECT_EQ(text_of(parse_every("--f", "7epochs")), "7epochs");
  for (const char* wrong :
       {"", "steps", "0steps", "-1steps", "5", "5 steps", "5step", "1.5epochs"}) {
    EXPECT_THROW(parse_every("--f", wrong), ConfigError) << wrong;
  }
}

TEST(Options, PresetsAreOverriddenPartByPart) {
  TrainOptions options;
  options.epochs = 10;
  const Course course = course_of(options, 20);
  StrategyOptions ours = strategy_options(options, course, 4);
  EXPECT_EQ(ours.schedule.phases.warmup, 1);
  EXPECT_EQ(ours.exchange, ExchangeOptions{});
  EXPECT_EQ(ours.schedule.alpha, options.lr);
  options.preset = "paper";
  ours = strategy_options(options, course, 4);
  EXPECT_EQ(ours.schedule.kind, ScheduleKind::kPlateau);
  EXPECT_EQ(ours.exchange.kind, ExchangeKind::kRotating);
  options.wire = Wire::kInt8;  // implies sharded
  options.skip = 8;
  ours = strategy_options(options, course, 4);
  EXPECT_EQ(ours.exchange.kind, ExchangeKind::kSharded);
  EXPECT_EQ(ours.schedule.cadence, (Cadence{.skip = 8, .wait = 1}));
  options.strategy = "sync";
  EXPECT_THROW(strategy_options(options, course, 4), ConfigError);  // --wire changes nothing
}

}  // namespace
}  // namespace daso::test
