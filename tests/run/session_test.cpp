// SPDX-License-Identifier: Apache-2.0
#include "daso/run/session.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "daso/base/error.h"
#include "daso/run/saved_model.h"
#include "daso/tensor/safetensors.h"
#include "run_ranks.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Kind {
  std::string strategy;
  std::optional<Wire> wire;
  std::string optimizer = "sgd";
};

const auto kKinds = testing::Values(
    Kind{"none", {}}, Kind{"node", {}}, Kind{"sync", {}}, Kind{"local", {}},
    Kind{"daso", Wire::kFp32}, Kind{"daso", Wire::kBf16}, Kind{"daso", Wire::kFp16},
    Kind{"daso", Wire::kInt8}, Kind{"daso", Wire::kQsgd4}, Kind{"daso", Wire::kInt8, "adamw"},
    Kind{"sync", {}, "adamw"}, Kind{"sync", {}, "lars"}, Kind{"daso", Wire::kInt8, "lars"},
    Kind{"daso", Wire::kInt8, "lamb"});

class Training : public testing::TestWithParam<Kind> {
 protected:
  static Settings options(const fs::path& out) {
    Settings options = small_run(out);
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
  const ScratchFolder whole;
  Settings options = Training::options(whole.path());
  options.checkpoint_every = Every{.number = 3, .unit = Every::Unit::kSteps};
  train(options);
  const std::string expected = result_in(whole.path());
  EXPECT_GT(expected.size(), 10000U);
  for (const int step : {3, 9, 12, 15, 21}) {
    const ScratchFolder rest;
    Settings resumed = Training::options(rest.path());
    resumed.resume = true;
    resumed.resume_from = whole.path() / "checkpoints" / fmt::format("step-{:09}", step);
    train(resumed);
    EXPECT_TRUE(result_in(rest.path()) == expected) << "from step " << step;
  }
}

// 60 steps, and from each of them on.
class SlowTraining : public Training {};

TEST_P(SlowTraining, GoesOnFromEveryStepWithTheSameBytes) {
  const ScratchFolder whole;
  Settings options = Training::options(whole.path());
  options.data = "synthetic:train=640,test=64,size=8,channels=1";
  options.checkpoint_every = Every{.number = 1, .unit = Every::Unit::kSteps};
  ASSERT_EQ(train(options)[0].steps, 60);
  const std::string expected = result_in(whole.path());
  options.checkpoint_every.reset();
  options.resume = true;
  for (int step = 1; step < 60; ++step) {
    const ScratchFolder rest;
    options.out = rest.path();
    options.resume_from = whole.path() / "checkpoints" / fmt::format("step-{:09}", step);
    train(options);
    EXPECT_TRUE(result_in(rest.path()) == expected) << "from step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Slow, SlowTraining, kKinds);
INSTANTIATE_TEST_SUITE_P(All, Training, kKinds);

TEST(Session, StopsAllRanksAtTheSameStepAndGoesOn) {
  const ScratchFolder whole;
  const ScratchFolder halves;
  train(small_run(whole.path()));
  Settings options = small_run(halves.path());
  const std::vector<Summary> stopped =
      train(options, {.after_step = [](int rank, int step) { return rank == 1 && step > 4; }});
  EXPECT_EQ(stopped[0].steps, stopped[1].steps);
  EXPECT_LT(stopped[0].steps, 24);
  options.resume = true;
  const std::vector<Summary> done = train(options);
  EXPECT_EQ(done[0].steps, 24);
  EXPECT_TRUE(result_in(halves.path()) == result_in(whole.path()));
}

// Epoch 1 has the steps 8 ... 15. An exchange begins in step 8 and is in flight when the run stops
// after step 9; its round ends in step 12, and there the new cadence begins.
TEST(Session, GoesOnWithAnotherCadence) {
  for (const ScheduleKind kind : {ScheduleKind::kFixed, ScheduleKind::kRate}) {
    const ScratchFolder first;
    Settings options = small_run(first.path());
    options.schedule = kind;
    options.skip = 4;
    options.wait = 4;
    options.warmup_epochs = 1;
    options.checkpoint_every = Every{.number = 2, .unit = Every::Unit::kSteps};
    train(options);
    const ScratchFolder second;
    options.out = second.path();
    options.skip = 2;
    options.wait = 1;
    options.resume = true;
    options.resume_from = first.path() / "checkpoints" / "step-000000010";
    std::map<std::int64_t, Progress> seen;
    const auto done =
        train(options, {.on_progress = [&](const Progress& now) { seen[now.info.step] = now; }});
    EXPECT_EQ(done[0].steps, 24) << name_of(kind);
    EXPECT_FALSE(seen.at(11).strategy.staleness);
    EXPECT_EQ(seen.at(12).strategy.staleness, 4);
    EXPECT_EQ(seen.at(12).strategy.skip, 2);
    EXPECT_EQ(seen.at(12).strategy.wait, 1);
    EXPECT_EQ(seen.at(13).strategy.staleness, 1);
  }
}

TEST(Session, NeedsNobodyWhoMayInterruptIt) {
  const ScratchFolder folder;
  run_ranks({.ranks = 1}, [&](World& world) {
    Settings options = small_run(folder.path());
    options.strategy = "none";
    options.epochs = 1;
    daso::Run run(options);
    Session session(world, run);
    const Summary summary = session.train([](const Progress&) {}, {});
    EXPECT_EQ(summary.steps, 16);  // 256 examples in batches of 16
    EXPECT_EQ(summary.exit, kExitOk);
  });
}

// Of 4 ranks on 2 nodes one falls asleep for 0.6 s in one step; those that wait for it are not
// late.
TEST(Session, NamesTheRankThatWasLate) {
  std::mt19937 dice(7);
  for (const char* strategy : {"sync", "daso"}) {
    for (int attempt = 0; attempt < 5; ++attempt) {
      const int sleeper = static_cast<int>(dice() % 4);
      const int when = 9 + static_cast<int>(dice() % 8);
      const ScratchFolder folder;
      Settings options = small_run(folder.path());
      options.strategy = strategy;
      options.batch_size = 2;  // 32 steps
      options.epochs = 1;
      if (options.strategy == "daso") options.warmup_epochs = 0;
      Late latest;
      train(options, {.nodes = {"a", "a", "b", "b"},
                      .after_step =
                          [&](int rank, int step) {
                            if (rank == sleeper && step == when) {
                              std::this_thread::sleep_for(std::chrono::milliseconds(600));
                            }
                            return false;
                          },
                      .on_progress =
                          [&](const Progress& now) {
                            if (now.late && now.late->seconds > latest.seconds) latest = *now.late;
                          }});
      EXPECT_EQ(latest.rank, sleeper) << strategy << " step " << when;
      EXPECT_EQ(latest.step, when - 1);
      EXPECT_NEAR(latest.seconds, 0.6, 0.3);
    }
  }
}

// Files of its own on each node, say, of which one copy is not complete.
TEST(Session, RefusesDataThatDiffersBetweenRanks) {
  const ScratchFolder folder;
  const std::vector<std::pair<std::string, std::string>> others = {
      {"train=255,test=64,size=8,channels=1", "rank 1 has 255 examples to train with"},
      {"train=256,test=63,size=8,channels=1", "63 to test with"},
      {"train=256,test=64,size=8,channels=1,seed=2", "mean"}};
  for (const auto& [other, said] : others) {
    run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [&, other = other, said = said](World& world) {
      Settings options = small_run(folder.path());
      if (world.rank() == 1) options.data = "synthetic:" + other;
      try {
        daso::Run run(options);
        Session session(world, run);
        ADD_FAILURE() << "rank " << world.rank() << " has noticed nothing";
      } catch (const ConfigError& error) {
        EXPECT_THAT(error.what(), HasSubstr("--data is not the same on all ranks: rank 0 has 256"));
        EXPECT_THAT(error.what(), HasSubstr(said));
      }
    });
  }
}

// Of parameters that train and of those that are frozen.
TEST(Session, BeginsWithTheModelThatRankZeroWasGiven) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.epochs = 1;
  train(options);
  const State first = load_saved(folder.path(), {}).tensors;
  State second = first;
  for (auto& [name, tensor] : second) tensor = tensor + 1;
  const fs::path file = folder.path() / "first.safetensors";
  const fs::path stale = folder.path() / "stale.safetensors";
  write_tensors(file, first);
  write_tensors(stale, second);
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [&](World& world) {
    Settings own = small_run(folder.path());
    own.strategy = "sync";
    own.freeze = {"fc1"};
    own.init = world.rank() == 0 ? file : stale;
    daso::Run run(own);
    const Session session(world, run);
    for (const auto& [name, tensor] : session.model().named_parameters()) {
      EXPECT_TRUE(at::equal(tensor, first.at(name))) << name << " of rank " << world.rank();
    }
  });
}

TEST(Summary, HasNothingOfAnEpochThatWasNotOver) {
  for (const char* name : {"train_loss", "test_loss", "test_accuracy"}) {
    EXPECT_THAT(text_of(Summary{.epochs = 1}), HasSubstr(name));
    EXPECT_THAT(text_of(Summary{.epochs = 0, .evaluated = false}), testing::Not(HasSubstr(name)));
  }
}

// Of three epochs of 8 steps. What it ends with is what an epoch ends with: nodes agree, the model
// is evaluated and saved.
TEST(Session, EndsAfterTheStepsThatItMayTake) {
  for (const std::string strategy : {"daso", "local", "sync", "node", "none"}) {
    const ScratchFolder folder;
    Settings options = small_run(folder.path());
    options.strategy = strategy;
    options.max_steps = 5;
    const Summary first = train(options)[0];
    EXPECT_EQ(first.steps, 5) << strategy;
    EXPECT_EQ(first.epochs, 0);
    EXPECT_TRUE(first.evaluated);
    EXPECT_GT(first.test_loss, 0);
    EXPECT_TRUE(fs::exists(folder.path() / "checkpoints" / "step-000000005" / "manifest.json"));
    options.resume = true;
    EXPECT_EQ(train(options)[0].steps, 5) << "a run that has ended goes on";
    options.max_steps = 13;
    EXPECT_EQ(train(options)[0].steps, 13);
    options.max_steps = 100;
    EXPECT_EQ(train(options)[0].steps, 24) << "there are no more epochs";
  }
}

// The end of a part is no step of its own.
TEST(Session, GoesOnAfterTheStepsThatItMightTake) {
  const ScratchFolder whole;
  Settings options = small_run(whole.path());
  options.strategy = "sync";
  train(options);
  const ScratchFolder parts;
  options.out = parts.path();
  options.max_steps = 11;
  train(options);
  options.resume = true;
  options.max_steps.reset();
  train(options);
  EXPECT_TRUE(result_in(parts.path()) == result_in(whole.path()));
}

TEST(Session, SaysThatARunHasDiverged) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.lr = 1e30;
  for (const char* strategy : {"none", "daso"}) {
    options.strategy = strategy;
    EXPECT_THROW(train(options), Error) << strategy;
  }
}

TEST(Session, FrozenParametersStayAsTheyAre) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.freeze = {"fc1", "fc2.bias"};
  options.checkpoint_every = Every{.number = 1, .unit = Every::Unit::kSteps};
  train(options);
  const fs::path checkpoints = folder.path() / "checkpoints";
  const auto tensors = [&](const char* step) {
    const fs::path checkpoint = checkpoints / step;
    return read_part(checkpoint, read_manifest(checkpoint), "node-0.safetensors");
  };
  const State first = tensors("step-000000001");
  const State last = tensors("step-000000024");
  for (const char* name : {"model.fc1.weight", "model.fc1.bias", "model.fc2.bias"}) {
    EXPECT_TRUE(at::equal(first.at(name), last.at(name))) << name;
  }
  EXPECT_FALSE(at::equal(first.at("model.fc2.weight"), last.at("model.fc2.weight")));
  options.freeze = {"fc"};  // not a whole word
  options.out = folder.path() / "other";
  EXPECT_THROW(train(options), ConfigError);
}

TEST(Session, RefusesToFreezeAllByTheNamesThatUsersKnow) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.freeze = {"fc1", "fc2", "fc3"};
  try {
    train(options);
    ADD_FAILURE() << "not refused";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--freeze fc1,fc2,fc3 leaves nothing of model 'mlp'"));
  }
}

TEST(Session, AccumulationEqualsALargerBatch) {
  const ScratchFolder one;
  const ScratchFolder two;
  Settings options = small_run(one.path());
  options.strategy = "sync";
  const double whole = train(options)[0].train_loss;
  options.out = two.path();
  options.batch_size = 8;
  options.accumulate = 2;
  EXPECT_NEAR(train(options)[0].train_loss, whole, 1e-4);
}

// Averaging parameters instead of gradients would miss this by far with AdamW.
TEST(Session, BlockingPhasesWithAdamwEqualOneRankWithTheWholeBatch) {
  const ScratchFolder two;
  const ScratchFolder one;
  Settings options = small_run(two.path());
  options.optimizer.name = "adamw";
  options.strategy = "daso";
  options.warmup_epochs = options.epochs;  // blocks throughout
  const Summary nodes = train(options)[0];
  options.out = one.path();
  options.strategy = "none";
  options.warmup_epochs.reset();
  options.batch_size *= 2;
  const Summary alone = train(options, {.nodes = {"a"}})[0];
  EXPECT_EQ(nodes.steps, alone.steps);
  EXPECT_NEAR(nodes.train_loss, alone.train_loss, 1e-4);
  EXPECT_NEAR(nodes.test_loss, alone.test_loss, 1e-3);
}

TEST(Options, TracesAreUnderstoodOrRefused) {
  EXPECT_EQ(parse_trace("--trace", "steps=100..200")->first, 100);
  EXPECT_EQ(parse_trace("--trace", "steps=100..200")->end, 200);
  EXPECT_FALSE(parse_trace("--trace", "none"));
  for (const char* wrong : {"", "steps", "steps=3", "steps=5..5", "steps=-1..4", "100..200"}) {
    EXPECT_THROW(parse_trace("--trace", wrong), ConfigError) << wrong;
  }
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

TEST(Options, ThatTakeNoDataToRefuseAreRefusedWithoutIt) {
  const auto refusal = [](const auto& change) -> std::string {
    Settings options;
    change(options);
    try {
      validate(options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal([](Settings&) {}), "");
  EXPECT_THAT(refusal([](Settings& o) { o.momentum = 1; }),
              HasSubstr("--momentum must be in 0 ... below 1, got 1"));
  EXPECT_THAT(refusal([](Settings& o) { o.momentum = -0.5; }), HasSubstr("got -0.5"));
  const auto nesterov = [](Settings& o) {
    o.momentum = 0;
    o.optimizer.nesterov = true;
  };
  EXPECT_THAT(refusal(nesterov), HasSubstr("--nesterov needs a --momentum above 0"));
  const auto heads = [](Settings& o) {
    o.model = "transformer";
    o.heads = 3;
  };
  EXPECT_THAT(refusal(heads), HasSubstr("128 is no multiple of 3 heads"));
  EXPECT_THAT(refusal([](Settings& o) { o.loader_threads = 1025; }),
              HasSubstr("--loader-threads must be in 1 ... 1024, got 1025"));
}

TEST(Options, PresetsAreOverriddenPartByPart) {
  Settings options;
  options.epochs = 10;
  const RunPlan run_plan = run_plan_of(options, 8, 20);
  StrategyOptions ours = strategy_options(options, run_plan, 4);
  EXPECT_EQ(ours.schedule.phases.warmup, 1);
  EXPECT_EQ(ours.exchange, ExchangeOptions{});
  EXPECT_EQ(ours.schedule.alpha, 0.1);
  options.seed = 5;
  options.preset = "paper";
  ours = strategy_options(options, run_plan, 4);
  EXPECT_EQ(ours.exchange.seed, 5U);
  EXPECT_EQ(ours.schedule.kind, ScheduleKind::kPlateau);
  EXPECT_EQ(ours.exchange.kind, ExchangeKind::kRotating);
  options.wire = Wire::kInt8;  // implies sharded
  options.skip = 8;
  ours = strategy_options(options, run_plan, 4);
  EXPECT_EQ(ours.exchange.kind, ExchangeKind::kSharded);
  EXPECT_EQ(ours.schedule.cadence, (Cadence{.skip = 8, .wait = 1}));
  options.strategy = "sync";
  EXPECT_THROW(strategy_options(options, run_plan, 4), ConfigError);  // --wire changes nothing
}

}  // namespace
}  // namespace daso::test
