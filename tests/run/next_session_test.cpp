// SPDX-License-Identifier: Apache-2.0
// A run that outlives its world: a session ends and another one goes on, in the same process.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "daso/base/error.h"
#include "run_ranks.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const OnProgress kNobodyLooks = [](const Progress&) {};
const std::vector<std::string> kTwoNodes = {"a", "b"};

struct Kind {
  const char* strategy;
  std::optional<Wire> wire;
  const char* optimizer = "sgd";
};

Settings settings_of(const Kind& kind, const fs::path& out) {
  Settings settings = small_run(out);
  settings.strategy = kind.strategy;
  settings.wire = kind.wire;
  settings.optimizer.name = kind.optimizer;
  if (traits_of(kind.strategy).cycles) {
    settings.schedule = ScheduleKind::kFixed;
    settings.skip = 3;
    settings.warmup_epochs = 1;
  }
  if (traits_of(kind.strategy).merges_late) settings.wait = 2;
  return settings;
}

// The runs of a process, one for each of its ranks, whichever world they are in.
using Runs = std::vector<std::unique_ptr<Run>>;

Runs runs_of(const Settings& settings, std::size_t ranks) {
  Runs runs;
  for (std::size_t rank = 0; rank < ranks; ++rank) runs.push_back(std::make_unique<Run>(settings));
  return runs;
}

RankOptions ranks_on(const std::vector<std::string>& nodes) {
  return {.ranks = static_cast<int>(nodes.size()), .nodes = nodes};
}

// Trains on a new world until a signal comes in this step, and leaves the runs. Returns the steps.
std::int64_t train_until(Runs& runs, const std::vector<std::string>& nodes, int step) {
  std::int64_t steps = 0;
  run_ranks(ranks_on(nodes), [&](World& world) {
    Run& run = *runs[static_cast<std::size_t>(world.rank())];
    Session session(world, run);
    int done = 0;
    const auto interrupted = [&] { return ++done >= step ? std::optional(15) : std::nullopt; };
    while (session.train_epoch(kNobodyLooks, interrupted)) {
    }
    session.leave();
    if (world.rank() == 0) steps = run.place().step;
  });
  return steps;
}

void train_epochs(Runs& runs, const std::vector<std::string>& nodes, int epochs) {
  run_ranks(ranks_on(nodes), [&](World& world) {
    Session session(world, *runs[static_cast<std::size_t>(world.rank())]);
    for (int i = 0; i < epochs; ++i) session.train_epoch(kNobodyLooks, {});
    session.leave();
  });
}

void train_to_the_end(Runs& runs, const std::vector<std::string>& nodes) {
  run_ranks(ranks_on(nodes), [&](World& world) {
    Session session(world, *runs[static_cast<std::size_t>(world.rank())]);
    session.train(kNobodyLooks, {});
  });
}

class NextSession : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(All, NextSession,
                         testing::Values(Kind{"none", {}}, Kind{"node", {}}, Kind{"sync", {}},
                                         Kind{"local", {}, "adamw"}, Kind{"daso", Wire::kFp32},
                                         Kind{"daso", Wire::kInt8, "adamw"},
                                         Kind{"daso", Wire::kQsgd4}));

// An epoch has 8 steps. The ranks agree on a stop in step 8 and do it 8 later: in step 16,
// which is the first of the third epoch; the exchange that began there is in flight.
TEST_P(NextSession, GoesOnInTheMiddleOfAnEpochAsIfNothingHadHappened) {
  const ScratchFolder whole;
  const ScratchFolder parts;
  train(settings_of(GetParam(), whole.path()));
  Runs runs = runs_of(settings_of(GetParam(), parts.path()), 2);
  const std::int64_t steps = train_until(runs, kTwoNodes, 6);
  ASSERT_EQ(steps, 17);
  train_to_the_end(runs, kTwoNodes);
  EXPECT_TRUE(result_in(parts.path()) == result_in(whole.path()));
}

class OtherRanks : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(All, OtherRanks,
                         testing::Values(Kind{"sync", {}}, Kind{"local", {}, "adamw"},
                                         Kind{"daso", Wire::kInt8, "adamw"}));

// What a resume from the checkpoint after the first epoch ends with, on these nodes.
std::string resumed_on(const std::vector<std::string>& nodes,
                       const std::vector<std::string>& before) {
  const ScratchFolder first;
  const ScratchFolder rest;
  Settings settings = settings_of(OtherRanks::GetParam(), first.path());
  settings.checkpoint_every = Every{.number = 1, .unit = Every::Unit::kEpochs};
  train(settings, {.nodes = before});
  for (const auto& entry : fs::directory_iterator(first.path() / "checkpoints")) {
    if (read_manifest(entry.path()).place.epoch == 1) settings.resume_from = entry.path();
  }
  settings.out = rest.path();
  settings.checkpoint_every.reset();
  settings.resume = true;
  train(settings, {.nodes = nodes});
  return result_in(rest.path());
}

TEST_P(OtherRanks, GoOnFromAnEpochsBeginningAsAResumeDoes) {
  const std::vector<std::string> four = {"a", "a", "b", "b"};
  for (const auto& [before, after] : {std::pair(kTwoNodes, four), std::pair(four, kTwoNodes)}) {
    const ScratchFolder folder;
    Runs runs = runs_of(settings_of(GetParam(), folder.path()), 4);
    train_epochs(runs, before, 1);
    train_to_the_end(runs, after);
    EXPECT_TRUE(result_in(folder.path()) == resumed_on(after, before)) << after.size() << " ranks";
  }
}

// Of three nodes the first is lost after an epoch: the others are ranks 0 and 1 of the next
// generation, and go on with what the new rank 0 has.
TEST_P(OtherRanks, GoOnAfterOneOfThemWasLost) {
  const std::vector<std::string> three = {"a", "b", "c"};
  const ScratchFolder folder;
  Settings settings = settings_of(GetParam(), folder.path());
  Runs runs = runs_of(settings, 3);
  const auto errors = run_places(ranks_on(three), [&](const WorldOptions& options) {
    std::optional<World> world = World::join(options);
    daso::Run& run = *runs[static_cast<std::size_t>(options.place.rank)];
    std::optional<Session> session(std::in_place, *world, run);
    session->train_epoch(kNobodyLooks, {});
    session->leave();
    session.reset();
    const auto meet = [&] { world->everyone().barrier().wait(world->limit()); };
    if (options.place.rank == 0) {
      meet();
      world->abandon("its power is cut");
      return;
    }
    // Rank 0 may be gone before this rank sees the end of the first barrier.
    EXPECT_THROW((meet(), meet()), PeerError);
    World next = std::move(*world).next_generation(Seconds(5));
    ASSERT_EQ(next.size(), 2);
    Session rest(next, run);
    ASSERT_TRUE(rest.course().resumed());
    EXPECT_EQ(rest.course().resumed()->epoch, 1);
    EXPECT_EQ(rest.train(kNobodyLooks, {}).epochs, 3);
    next.leave();
  });
  for (const auto& error : errors) EXPECT_EQ(text_of(error), "");
  EXPECT_TRUE(result_in(folder.path()) == resumed_on(kTwoNodes, three));
}

TEST(NextSession, OnOtherRanksIsRefusedInTheMiddleOfAnEpoch) {
  const ScratchFolder folder;
  Runs runs = runs_of(settings_of({"daso", {}}, folder.path()), 3);
  train_until(runs, kTwoNodes, 6);
  run_ranks(ranks_on({"a", "b", "c"}), [&](World& world) {
    daso::Run& run = *runs[static_cast<std::size_t>(world.rank())];
    try {
      const Session session(world, run);
      ADD_FAILURE() << "rank " << world.rank() << " goes on";
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("in the middle of epoch 3 by 2 nodes with 1,1 ranks, "
                                          "this run has 3 nodes with 1,1,1 ranks"));
    }
  });
  train_to_the_end(runs, kTwoNodes);  // a session that was refused takes nothing away
}

TEST(NextSession, NeedsTheOneBeforeToHaveLeft) {
  const ScratchFolder folder;
  run_ranks({.ranks = 1}, [&](World& world) {
    daso::Run run(settings_of({"none", {}}, folder.path()));
    {
      Session session(world, run);
      session.train_epoch(kNobodyLooks, {});
      EXPECT_THROW(Session(world, run), ConfigError);
    }
    EXPECT_THROW(Session(world, run), ConfigError);  // it ended, and might have been by an error
  });
}

// A group of ranks of the old world must not be asked for statistics in the new one.
TEST(NextSession, SharesBatchNormWithTheNewRanksAlone) {
  const ScratchFolder whole;
  const ScratchFolder parts;
  const std::vector<std::string> nodes = {"a", "a"};
  const auto shared = [](const fs::path& out) {
    Settings settings = small_run(out);
    settings.data = "synthetic:train=64,test=16,size=8,channels=1";
    settings.model = "resnet20";
    settings.batch_size = 8;
    settings.strategy = "sync";
    settings.sync_batchnorm = true;
    return settings;
  };
  train(shared(whole.path()), {.nodes = nodes});
  Runs runs = runs_of(shared(parts.path()), 2);
  train_epochs(runs, nodes, 1);
  train_to_the_end(runs, nodes);
  EXPECT_TRUE(result_in(parts.path()) == result_in(whole.path()));
}

// A host program has random numbers and threads of its own.
TEST(Process, IsAsItWasAfterASession) {
  const ScratchFolder folder;
  at::manual_seed(5);
  const at::Tensor expected = at::rand({4});
  at::manual_seed(5);
  const int threads = at::get_num_threads();
  World world = World::alone();
  Settings settings = settings_of({"none", {}}, folder.path());
  settings.epochs = 1;
  settings.threads = threads + 1;
  int inside = 0;
  daso::Run run(settings);
  Session session(world, run);
  session.train([&](const Progress&) { inside = at::get_num_threads(); }, {});
  EXPECT_EQ(inside, threads + 1);
  EXPECT_EQ(at::get_num_threads(), threads);
  EXPECT_TRUE(at::equal(at::rand({4}), expected));
}

}  // namespace
}  // namespace daso::test
