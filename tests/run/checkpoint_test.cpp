// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <optional>
#include <random>

#include "daso/base/error.h"
#include "daso/base/file_descriptor.h"
#include "daso/run/checkpoint_writer.h"
#include "process.h"
#include "run_ranks.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string refusal(const Settings& options, const RunOptions& run = {}) {
  try {
    train(options, run);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// Runs that go on from a run with a checkpoint every 4 steps, each in a folder of its own.
class GoingOn : public testing::Test {
 protected:
  GoingOn() {
    Settings options = small_run(whole_.path());
    options.checkpoint_every = Every{.number = 4, .unit = Every::Unit::kSteps};
    train(options);
  }
  Settings from(int step, const ScratchFolder& out) const {
    Settings options = small_run(out.path());
    options.resume = true;
    options.resume_from = whole_.path() / "checkpoints" / fmt::format("step-{:09}", step);
    return options;
  }

  ScratchFolder whole_;
  ScratchFolder first_;
  ScratchFolder second_;
};

TEST_F(GoingOn, WithAnotherNumberOfRanksIsFromAnEpochsBeginning) {
  EXPECT_EQ(train(from(8, first_), {.nodes = {"a", "a", "b", "b"}})[0].epochs, 3);
  const Settings options = from(12, second_);
  const std::string said = refusal(options, {.nodes = {"a", "a", "b", "b"}});
  EXPECT_THAT(said, HasSubstr("can only go on from the beginning of an epoch"));
  EXPECT_THAT(said, HasSubstr("in the middle of epoch 2 by 2 nodes with 1,1 ranks, this run has 2 "
                              "nodes with 2,2 ranks"));
}

// The message names the checkpoint and the flags that may be wrong.
TEST_F(GoingOn, NeedsTheStateThatItsFlagsAskFor) {
  const auto said = [&](const std::function<void(Settings&)>& change) {
    Settings options = from(8, first_);
    change(options);
    const std::string message = refusal(options);
    EXPECT_THAT(message, HasSubstr(options.resume_from.string() + " does not fit this run"));
    return message;
  };
  EXPECT_THAT(said([](Settings& o) { o.optimizer.name = "lars"; }),
              HasSubstr("--optimizer lars --precision fp32"));
  EXPECT_THAT(said([](Settings& o) { o.precision = Precision::kFp16; }),
              HasSubstr("--optimizer sgd --precision fp16"));
  EXPECT_THAT(said([](Settings& o) { o.optimizer.ema = 0.9; }), HasSubstr("--ema 0.9"));
  EXPECT_THAT(said([](Settings& o) {
                o.freeze = {"fc1", "fc2.bias"};
              }),
              HasSubstr("--freeze fc1,fc2.bias"));
  // Too few numbers to change the padded size.
  EXPECT_THAT(said([](Settings& o) { o.freeze = {"fc3.bias"}; }),
              HasSubstr("other parameters were frozen"));
}

// An epoch has 8 steps on 2 ranks and 4 on 4, which count their steps anew: 12 and 16.
TEST(Checkpoint, WhatOtherRanksWriteIsTheNewest) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.epochs = 2;
  options.keep = 2;
  options.checkpoint_every = Every{.number = 1, .unit = Every::Unit::kEpochs};
  train(options);
  options.epochs = 4;
  options.resume = true;
  EXPECT_EQ(train(options, {.nodes = {"a", "a", "b", "b"}})[0].steps, 16);
  const fs::path checkpoints = folder.path() / "checkpoints";
  const fs::path newest = newest_checkpoint(checkpoints).value();
  EXPECT_EQ(newest, checkpoints / "step-000000016");
  const Manifest manifest = read_manifest(newest);
  EXPECT_TRUE(manifest.place == (RunPlace{.epoch = 4, .batch = 0, .step = 16}));
  EXPECT_EQ(manifest.nodes, (std::vector<int>{2, 2}));
  EXPECT_EQ(read_manifest(checkpoints / "step-000000012").place.epoch, 3);
  EXPECT_FALSE(fs::exists(checkpoints / "step-000000008"));
  EXPECT_EQ(train(options, {.nodes = {"a", "a", "b", "b"}})[0].epochs, 4);  // there is no more
}

TEST_F(GoingOn, InTheMiddleOfAnEpochNeedsAsManySteps) {
  Settings options = from(12, first_);
  options.batch_size = 32;
  EXPECT_THAT(refusal(options), HasSubstr("after step 4 of 8 of its epoch, and here an epoch has "
                                          "4 steps"));
  options = from(8, second_);
  options.batch_size = 32;
  EXPECT_EQ(train(options)[0].steps, 12);
}

// The first of 3 epochs warms up and the others cycle: in their middle the nodes differ.
TEST_F(GoingOn, InTheMiddleOfAnEpochNeedsItsPhase) {
  // In its first step, where a rank may hear of it from the other.
  const auto expect_error = [](const Settings& options, const char* said) {
    try {
      train(options);
      ADD_FAILURE() << "nothing says that " << said;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(said));
    }
  };
  Settings options = from(12, first_);
  options.warmup_epochs = 2;
  expect_error(options, "epoch 2 is cycling in the checkpoint");
  options = from(4, first_);
  options.warmup_epochs = 0;
  expect_error(options, "epoch 1 is blocking in the checkpoint");
  options = from(20, first_);
  options.cooldown_epochs = 1;
  expect_error(options, "epoch 3 is cycling in the checkpoint");
  options = from(16, second_);
  options.cooldown_epochs = 1;
  EXPECT_EQ(train(options)[0].steps, 24);
}

TEST_F(GoingOn, WithAnotherStrategyIsFromWhereAllNodesAreEqual) {
  Settings options = from(16, first_);
  options.strategy = "sync";
  EXPECT_EQ(train(options)[0].steps, 24);
  options = from(12, second_);
  options.strategy = "sync";
  EXPECT_THAT(refusal(options), HasSubstr("was written by --strategy daso, this run has sync"));
}

TEST(Checkpoint, OfNodesThatDifferIsForTheirStrategyAlone) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.strategy = "node";
  options.epochs = 1;
  train(options);
  options.epochs = 2;
  options.resume = true;
  options.strategy = "daso";
  EXPECT_THAT(refusal(options), HasSubstr("was written by --strategy node, this run has daso"));
  options.strategy = "node";
  EXPECT_THAT(refusal(options, {.nodes = {"a", "a", "b", "b"}}),
              HasSubstr("go on with as many as it had"));
  EXPECT_EQ(train(options)[0].epochs, 2);
}

// No shape tells the number of heads.
TEST(Checkpoint, OfATransformerGoesOnWithItsSizes) {
  const ScratchFolder folder;
  std::ofstream(folder.path() / "text") << std::string(1200, 'a');
  Settings options = small_run(folder.path() / "run");
  options.data = fmt::format("text:{},length=16", (folder.path() / "text").string());
  options.model = "transformer";
  options.embedding = 16;
  options.batch_size = 4;
  options.epochs = 1;
  train(options);
  options.epochs = 2;
  options.resume = true;
  options.heads = 2;
  EXPECT_THAT(refusal(options), HasSubstr("was trained with --layers 2 --embedding 16 --heads 4, "
                                          "this run has --layers 2 --embedding 16 --heads 2"));
  options.heads = 4;
  EXPECT_EQ(train(options)[0].epochs, 2);
}

// What such a run writes would be older than what is there.
TEST(Checkpoint, WithLaterOnesBesideItIsRefused) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.checkpoint_every = Every{.number = 1, .unit = Every::Unit::kEpochs};
  train(options);
  options.resume = true;
  options.resume_from = folder.path() / "checkpoints" / "step-000000008";
  EXPECT_THAT(refusal(options), HasSubstr("step-000000024 is later than"));
}

TEST(Checkpoint, MustBeTheSameOnAllRanks) {
  const ScratchFolder folder;
  const ScratchFolder elsewhere;
  Settings options = small_run(folder.path());
  options.epochs = 1;
  train(options);
  options.resume = true;
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [&](World& world) {
    Settings own = options;
    if (world.rank() == 1) own.out = elsewhere.path();
    daso::Run run(own);
    EXPECT_THROW(Session(world, run), ConfigError);
  });
}

TEST(Checkpoint, StaysWhereAnOlderOneCannotBeRemoved) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.epochs = 1;
  options.keep = 1;
  const fs::path stuck = folder.path() / "checkpoints" / "step-000000001";
  fs::create_directories(stuck / "manifest.json" / "file");
  train(options);
  fs::remove_all(stuck);
  const fs::path newest = newest_checkpoint(folder.path() / "checkpoints").value();
  EXPECT_FALSE(read_part(newest, read_manifest(newest), "rank-0.safetensors").empty());
}

TEST(Checkpoint, TheNewestCompleteOneCountsAndOldOnesGo) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.checkpoint_every = Every{.number = 1, .unit = Every::Unit::kEpochs};
  options.keep = 2;
  train(options);
  const fs::path checkpoints = folder.path() / "checkpoints";
  EXPECT_EQ(newest_checkpoint(checkpoints), checkpoints / "step-000000024");
  EXPECT_TRUE(fs::exists(checkpoints / "step-000000016"));
  EXPECT_FALSE(fs::exists(checkpoints / "step-000000008"));
  fs::copy(checkpoints / "step-000000024", checkpoints / "step-000000024-mine");
  EXPECT_EQ(newest_checkpoint(checkpoints), checkpoints / "step-000000024");
  fs::remove(checkpoints / "step-000000024" / "manifest.json");  // as if killed while writing
  EXPECT_EQ(newest_checkpoint(checkpoints), checkpoints / "step-000000016");
}

TEST(Checkpoint, DamagedPartsAreRefusedByName) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
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

// Two ranks on two nodes with a folder each. A pipe that nobody reads from stands for the disk of
// rank 1, which hangs when its second part is opened.
class HangingDisk : public testing::Test {
 protected:
  HangingDisk() {
    fs::create_directories(hangs_.path() / "step-000000000");
    const fs::path part = hangs_.path() / "step-000000000" / "rank-1.safetensors";
    EXPECT_EQ(::mkfifo(part.c_str(), 0600), 0);
  }
  const fs::path& folder_of(const World& world) const {
    return world.rank() == 0 ? healthy_.path() : hangs_.path();
  }
  // The first part of a rank is there.
  bool has_begun(const World& world) const {
    const std::string part = fmt::format("node-{}.safetensors", world.node());
    return fs::exists(folder_of(world) / "step-000000000" / part);
  }

  ScratchFolder healthy_;
  ScratchFolder hangs_;
};

TEST_F(HangingDisk, EndsAsOneThatCannotBeWrittenTo) {
  run_ranks({.ranks = 2, .nodes = {"a", "b"}, .limit = Seconds(3)}, [&](World& world) {
    CheckpointWriter writer(world, folder_of(world), /*keep=*/1);
    writer.write({});
    try {
      writer.finish();
      ADD_FAILURE() << "rank " << world.rank() << " has noticed nothing";
    } catch (const Error& error) {
      EXPECT_EQ(daso::exit_code_of(error), kExitBug);
      EXPECT_THAT(error.what(), HasSubstr("rank-1.safetensors"));
      if (world.rank() == 1) {
        EXPECT_THAT(error.what(), HasSubstr("the disk hangs"));
      }
    }
  });
  EXPECT_FALSE(newest_checkpoint(healthy_.path()));
}

TEST_F(HangingDisk, IsLeftToItselfAfterAnError) {
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [&](World& world) {
    std::optional<CheckpointWriter> writer(std::in_place, world, folder_of(world), /*keep=*/1);
    writer->write({});
    EXPECT_TRUE(holds_within(Seconds(20), [&] { return has_begun(world); }));
    if (world.rank() == 1) world.abandon("something else went wrong");
    const auto begun = Clock::now();
    writer.reset();
    EXPECT_LT(since(begun).count(), 10);  // it has more than 20 s to write
  });
}

// Who opens a file waits while another has a lease on it, as on a disk that hangs.
class Leased {
 public:
  explicit Leased(const fs::path& file)
      : before_(std::signal(SIGIO, SIG_IGN)), file_(::open(file.c_str(), O_RDWR | O_CLOEXEC)) {}
  Leased(const Leased&) = delete;
  Leased& operator=(const Leased&) = delete;
  ~Leased() {
    file_.close();
    std::signal(SIGIO, before_);
  }

  bool works() const { return ::fcntl(file_.get(), F_SETLEASE, F_WRLCK) == 0; }

 private:
  const sighandler_t before_;
  FileDescriptor file_;
};

TEST(Checkpoint, IsNotWaitedForWithoutALimit) {
  const ScratchFolder folder;
  const fs::path checkpoint = folder.path() / "step-000000001";
  fs::create_directories(checkpoint);
  const fs::path manifest = checkpoint / "manifest.json";
  std::ofstream(manifest) << "{";
  const Leased leased(manifest);
  if (!leased.works()) GTEST_SKIP() << "no leases in " << folder.path();
  constexpr Seconds kLimit{0.2};
  const auto refusal = [](const auto& read) -> std::string {
    try {
      read();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal([&] { read_manifest(checkpoint, kLimit); }),
              HasSubstr("reading " + manifest.string() + " is not done after 0.2 s"));
  EXPECT_THAT(refusal([&] { newest_checkpoint(folder.path(), kLimit); }),
              HasSubstr("looking for checkpoints in " + folder.path().string() + " is not done"));
}

// A run that was killed leaves parts and drafts of parts; the next checkpoint clears them away.
TEST(Checkpoint, ThatWasNeverFinishedIsRemovedByTheNext) {
  const ScratchFolder folder;
  const fs::path left = folder.path() / "checkpoints" / "step-000000005";
  const fs::path others = folder.path() / "checkpoints" / "step-mine";
  for (const fs::path& one : {left, others}) {
    fs::create_directories(one);
    std::ofstream(one / "rank-0.safetensors.0123abcd.part") << "half";
  }
  Settings options = small_run(folder.path());
  options.epochs = 1;
  train(options);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(others));
  EXPECT_EQ(newest_checkpoint(folder.path() / "checkpoints"),
            folder.path() / "checkpoints" / "step-000000008");
}

// The manifest of a run of 8 steps an epoch, with one number edited by hand.
TEST(Checkpoint, OfAnEditedManifestIsRefused) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.epochs = 1;
  train(options);
  options.epochs = 3;
  options.resume = true;
  const fs::path manifest =
      newest_checkpoint(folder.path() / "checkpoints").value() / "manifest.json";
  const std::string whole = bytes_of(manifest);
  const auto said = [&](const std::string& field, const std::string& number) {
    const std::size_t begin = whole.find("\"" + field + "\": ") + field.size() + 4;
    std::string edited = whole;
    edited.replace(begin, whole.find_first_of(",\n", begin) - begin, number);
    std::ofstream(manifest, std::ios::binary) << edited;
    const std::string message = refusal(options);
    EXPECT_THAT(message, HasSubstr(manifest.string()));
    return message;
  };
  EXPECT_THAT(said("epoch", "1.5"), HasSubstr(": epoch: takes a whole number"));
  EXPECT_THAT(said("epoch", "true"), HasSubstr(": epoch: takes a whole number"));
  EXPECT_THAT(said("epoch", "4294967298"), HasSubstr(": epoch: 4294967298 is too large"));
  EXPECT_THAT(said("epoch", "2"), HasSubstr("step 8 is not that of batch 0 of 8 in epoch 2"));
  EXPECT_THAT(said("step", "9223372036854775807"), HasSubstr("step 9223372036854775807 is not"));
  EXPECT_THAT(said("batch", "-1"), HasSubstr(": batch: takes a whole number of at least 0"));
  EXPECT_THAT(said("batches", "9223372036854775807"), HasSubstr("step 8 is not that of batch 0"));
  EXPECT_THAT(said("format", "2"), HasSubstr("has format 2, this program knows format 1"));
  EXPECT_THAT(said("model", "[]"), HasSubstr(": model: takes a text, got []"));
  std::ofstream(manifest, std::ios::binary) << whole;
  EXPECT_EQ(train(options)[0].epochs, 3);
}

// Whatever is in a manifest: it is understood, or refused with a ConfigError that names it.
TEST(Checkpoint, DamagedManifestsAreUnderstoodOrRefused) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.epochs = 1;
  train(options);
  const fs::path checkpoint = newest_checkpoint(folder.path() / "checkpoints").value();
  const std::string whole = bytes_of(checkpoint / "manifest.json");
  std::mt19937 dice(5);
  int refused = 0;
  for (int attempt = 0; attempt < 3000; ++attempt) {
    std::string text = whole;
    const std::size_t place = dice() % text.size();
    switch (dice() % 3) {
      case 0:
        text[place] = static_cast<char>(dice() % 256);
        break;
      case 1:
        text.erase(place, 1 + dice() % 40);
        break;
      default:
        text.insert(place, text.substr(dice() % text.size(), 1 + dice() % 40));
    }
    std::ofstream(checkpoint / "manifest.json", std::ios::binary) << text;
    try {
      const Manifest manifest = read_manifest(checkpoint);
      EXPECT_GE(manifest.place.epoch, 0);
      read_part(checkpoint, manifest, "rank-0.safetensors");
    } catch (const ConfigError& error) {
      ++refused;
      EXPECT_THAT(error.what(), HasSubstr(checkpoint.string()));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("json.exception")));
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace daso::test
