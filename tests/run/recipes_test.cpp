// SPDX-License-Identifier: Apache-2.0
// What a recipe is made of: that it reaches the run, and that a run goes on with the same bytes.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "daso/base/error.h"
#include "daso/run/saved_model.h"
#include "run_ranks.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string refusal(const Settings& options) {
  try {
    validate(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

// Trains to the end, and again from the checkpoint at this step.
void expect_same_bytes_from(int step, Settings options, const RunOptions& run = {}) {
  const ScratchFolder whole;
  options.out = whole.path();
  options.checkpoint_every = Every{.number = 4, .unit = Every::Unit::kSteps};
  train(options, run);
  const ScratchFolder rest;
  options.out = rest.path();
  options.resume = true;
  options.resume_from = whole.path() / "checkpoints" / fmt::format("step-{:09}", step);
  train(options, run);
  EXPECT_TRUE(result_in(rest.path()) == result_in(whole.path())) << options.strategy;
}

// A small transformer: 1200 bytes of text are 8 steps an epoch on 2 ranks.
Settings text_run(const fs::path& folder, const std::string& text) {
  std::ofstream(folder / "text") << text;
  Settings options = small_run(folder / "run");
  options.data = fmt::format("text:{},length=16", (folder / "text").string());
  options.model = "transformer";
  options.embedding = 16;
  options.batch_size = 4;
  return options;
}

std::string words() {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "eins zwei drei vier ";
  return text;
}

// What would be ignored is refused, and says for what it is.
TEST(Settings, RefuseWhatWouldChangeNothing) {
  const auto refused = [](const auto& change) {
    Settings options;
    change(options);
    return refusal(options);
  };
  EXPECT_EQ(refused([](Settings& o) { o.momentum = 0.5; }), "");
  EXPECT_EQ(refused([](Settings& o) {
              o.optimizer.name = "lamb";
              o.momentum = 0.5;
            }),
            "--momentum changes nothing here: it is for --optimizer sgd and lars");
  EXPECT_EQ(refused([](Settings& o) {
              o.optimizer.name = "lars";
              o.optimizer.nesterov = true;
            }),
            "--nesterov changes nothing here: it is for --optimizer sgd");
  EXPECT_EQ(refused([](Settings& o) {
              o.weight_decay = 0;
              o.optimizer.decay_all = false;
            }),
            "--no-decay and --no-decay-norm-bias change nothing with --weight-decay 0");
  EXPECT_EQ(refused([](Settings& o) {
              o.lr_start = 0.01;
              o.lr_warmup_epochs = 0;
            }),
            "--lr-start changes nothing with --lr-warmup-epochs 0");
  EXPECT_EQ(refused([](Settings& o) { o.lr_warmup_epochs = 7; }),
            "--lr-warmup-epochs must be in 0 ... 6, as there are --epochs 6, got 7");
  EXPECT_EQ(refused([](Settings& o) {
              o.strategy = "sync";
              o.preset = "paper";
            }),
            "--preset changes nothing here: it is for --strategy daso and local");
  EXPECT_EQ(refused([](Settings& o) { o.dropout = 0.1; }),
            "--dropout changes nothing here: it is for --model transformer and vit-tiny");
}

// 32 samples on each of 64 ranks are 8 times 256.
TEST(RateOptions, BaseRateIsScaledAndWhereTheWarmupBegins) {
  Settings options;
  options.base_lr = 0.1;
  options.lr_warmup_epochs = 5;
  options.epochs = 90;
  options.lr_schedule = RateKind::kStep;
  options.lr_steps = {30, 60, 80};
  const RunPlan run_plan = run_plan_of(options, 64, 10);
  EXPECT_DOUBLE_EQ(run_plan.rate(0), 0.1 + 0.7 / 50);
  EXPECT_DOUBLE_EQ(run_plan.rate(24), 0.45);
  EXPECT_EQ(run_plan.rate(49), 0.8);
  EXPECT_EQ(run_plan.rate(299), 0.8);
  EXPECT_DOUBLE_EQ(run_plan.rate(300), 0.08);
  EXPECT_DOUBLE_EQ(run_plan.rate(899), 0.0008);
  // A small batch does not begin above its peak.
  EXPECT_DOUBLE_EQ(run_plan_of(options, 1, 10).rate(0), 0.0125);
}

TEST(RateOptions, BaseRateCountsTheRanksThatTrainOneModel) {
  const Topology topology = Topology::from_names({"a", "a", "a", "b", "b"});
  Settings options;
  options.base_lr = 0.1;
  options.batch_size = 64;
  const auto peak = [&](const char* strategy) {
    options.strategy = strategy;
    return peak_of(options, ranks_of_a_model(options, topology));
  };
  EXPECT_DOUBLE_EQ(peak("none"), 0.1 * 64 / 256);
  EXPECT_DOUBLE_EQ(peak("node"), 0.1 * 3 * 64 / 256);
  for (const char* strategy : {"sync", "local", "daso"}) {
    EXPECT_DOUBLE_EQ(peak(strategy), 0.1 * 5 * 64 / 256);
  }
  options.strategy = "node";
  const RunPlan run_plan = run_plan_of(options, 3, 10);
  EXPECT_EQ(resolved(options, run_plan, topology).lr, 0.1 * 3 * 64 / 256);
}

TEST(RateOptions, WhatIsResolvedGivesTheSameRates) {
  Settings step;
  step.base_lr = 0.1;
  step.lr_schedule = RateKind::kStep;
  step.lr_steps = {1.5, 3};
  Settings polynomial;
  polynomial.lr = 2;
  polynomial.lr_start = 0.5;
  polynomial.lr_schedule = RateKind::kPolynomial;
  Settings plateau;
  plateau.lr_schedule = RateKind::kPlateau;
  for (const Settings& options : {Settings{}, step, polynomial, plateau}) {
    Settings all = options;
    resolve_rate(all, 16, 20);
    EXPECT_TRUE(all.lr && all.lr_warmup_epochs && !all.base_lr);
    const RunPlan asked = run_plan_of(options, 16, 20);
    const RunPlan given = run_plan_of(all, 3, 20);  // nothing is left to scale
    for (std::int64_t i = 0; i < asked.steps(); ++i) EXPECT_EQ(asked.rate(i), given.rate(i)) << i;
  }
  resolve_rate(plateau, 1, 1);
  EXPECT_EQ(plateau.lr_gamma, 0.1);
  EXPECT_EQ(plateau.lr_patience, 2);
  EXPECT_EQ(plateau.lr_threshold, 0.01);
}

TEST(RateOptions, WhatWouldChangeNothingIsRefused) {
  const auto with = [](auto change) {
    Settings options;
    change(options);
    return refusal(options);
  };
  EXPECT_THAT(with([](auto& o) { o.lr_steps = {1}; }), HasSubstr("--lr-steps"));
  EXPECT_THAT(with([](auto& o) { o.lr_gamma = 0.5; }), HasSubstr("step and plateau"));
  EXPECT_THAT(with([](auto& o) { o.lr_power = 1; }), HasSubstr("--lr-power"));
  EXPECT_THAT(with([](auto& o) { o.lr_patience = 1; }), HasSubstr("--lr-patience"));
  EXPECT_THAT(with([](auto& o) { o.lr_threshold = 0.1; }), HasSubstr("--lr-threshold"));
  EXPECT_THAT(with([](auto& o) {
                o.lr_schedule = RateKind::kConstant;
                o.lr_end = 0.1;
              }),
              HasSubstr("--lr-end"));
  EXPECT_THAT(with([](auto& o) { o.lr_schedule = RateKind::kStep; }), HasSubstr("30,60,80"));
  const std::vector<std::vector<double>> wrong = {{0}, {2, 2}, {3, 1}, {1, 6}, {std::nan("")}};
  for (const std::vector<double>& steps : wrong) {
    EXPECT_THAT(with([&](auto& o) {
                  o.lr_schedule = RateKind::kStep;
                  o.lr_steps = steps;  // of 6 epochs
                }),
                HasSubstr("--lr-steps takes rising numbers"));
  }
  EXPECT_THAT(with([](auto& o) {
                o.base_lr = 0.1;
                o.lr_start = 0.1;
              }),
              HasSubstr("--lr-start"));
  EXPECT_EQ(with([](auto& o) { o.lr_end = 0.5; }), "");
}

// The first loss is progress by any measure, the next by 9 tenths is not.
TEST(Recipe, PlateauLetsTheRateFallAndGoesOn) {
  for (const char* strategy : {"none", "node", "sync", "local", "daso"}) {
    Settings options = small_run("");
    options.strategy = strategy;
    options.lr_schedule = RateKind::kPlateau;
    options.lr = 0.05;
    options.lr_gamma = 0.25;
    options.lr_patience = 0;
    options.lr_threshold = 0.9;
    std::vector<double> rates;  // of the last step of each epoch
    const ScratchFolder folder;
    options.out = folder.path();
    train(options, {.on_progress = [&](const Progress& now) {
            if (now.test) rates.push_back(now.info.rate);
          }});
    EXPECT_EQ(rates, (std::vector<double>{0.05, 0.05, 0.0125})) << strategy;
    expect_same_bytes_from(20, options);
    expect_same_bytes_from(16, options);
  }
}

TEST(Recipe, NamedParametersDoNotDecay) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.optimizer.no_decay = {"fc1", "fc2.weight"};
  EXPECT_EQ(refusal(options), "");
  expect_same_bytes_from(12, options);
  options.weight_decay = 0;
  EXPECT_THAT(refusal(options), HasSubstr("--no-decay"));
  options.weight_decay.reset();
  options.optimizer.no_decay = {"fc"};  // not a whole word
  EXPECT_THROW(train(options), ConfigError);
}

TEST(Recipe, LayerwiseOptimizersLearn) {
  for (const char* name : {"lars", "lamb"}) {
    const ScratchFolder folder;
    Settings options = small_run(folder.path());
    options.optimizer.name = name;
    if (options.optimizer.name == "lars") {
      options.lr = 2;
      options.trust = 0.01;
    }
    if (options.optimizer.name == "lamb") options.lr = 0.01;
    std::vector<double> losses;
    train(options, {.on_progress = [&](const Progress& now) {
            if (now.test) losses.push_back(now.loss);
          }});
    ASSERT_EQ(losses.size(), 3U);
    EXPECT_LT(losses[2], losses[0]) << name;
  }
}

TEST(Recipe, OptionsOfOtherOptimizersAreRefused) {
  Settings options;
  options.trust = 0.01;
  EXPECT_THAT(refusal(options), HasSubstr("--trust"));
  options.optimizer.name = "lars";
  EXPECT_EQ(refusal(options), "");
  EXPECT_EQ(optimizer_options(options).trust, 0.01);
  options.optimizer.decay_all = false;
  EXPECT_THAT(refusal(options), HasSubstr("--no-decay-norm-bias"));
}

// At a rate near 0 nothing is learned: both runs have the model that they began with.
TEST(Recipe, LabelSmoothingIsOfTheTrainingLossAlone) {
  Settings options = small_run("");
  options.lr = 1e-12;
  const auto run = [&](double smoothing) {
    const ScratchFolder folder;
    options.out = folder.path();
    options.label_smoothing = smoothing;
    return train(options)[0];
  };
  const Summary plain = run(0);
  const Summary smooth = run(0.9);
  EXPECT_NEAR(smooth.test_loss, plain.test_loss, 1e-5);
  EXPECT_EQ(smooth.test_accuracy, plain.test_accuracy);
  EXPECT_GT(std::abs(smooth.train_loss - plain.train_loss), 1e-4);
  for (const double wrong : {-0.1, 1.0, std::nan("")}) {
    options.label_smoothing = wrong;
    EXPECT_THAT(refusal(options), HasSubstr("--label-smoothing"));
  }
}

TEST(Recipe, DropoutGoesOnInTheMiddleOfAnEpoch) {
  const ScratchFolder folder;
  Settings options = text_run(folder.path(), words());
  options.dropout = 0.3;
  for (const char* strategy : {"none", "node", "sync", "local", "daso"}) {
    options.strategy = strategy;
    expect_same_bytes_from(12, options);
  }
  options.precision = Precision::kFp16;
  options.batch_size = 2;
  options.accumulate = 2;
  expect_same_bytes_from(12, options);
  for (const double wrong : {-0.1, 1.0, std::nan("")}) {
    options.dropout = wrong;
    EXPECT_THAT(refusal(options), HasSubstr("--dropout must be in 0 ... below 1"));
  }
}

// All examples are alike, and at a rate near 0 nothing is learned: losses differ by what is drawn.
TEST(Recipe, DropoutDrawsAnewForEveryStepAndPart) {
  const ScratchFolder folder;
  Settings options = text_run(folder.path(), std::string(1200, 'a'));
  options.strategy = "none";
  options.epochs = 1;
  options.lr = 1e-12;
  const auto losses = [&](double dropout, int accumulate) {
    const ScratchFolder out;
    options.out = out.path();
    options.dropout = dropout;
    options.accumulate = accumulate;
    std::vector<double> means;  // of the first step, of two, ...
    train(options, {.on_progress = [&](const Progress& now) { means.push_back(now.loss); }});
    return means;
  };
  const std::vector<double> plain = losses(0, 1);
  EXPECT_NEAR(plain.at(1), plain.at(0), 1e-6);
  EXPECT_NEAR(losses(0, 2).at(0), plain.at(0), 1e-6);
  const std::vector<double> thinned = losses(0.5, 1);
  EXPECT_GT(std::abs(thinned.at(1) - thinned.at(0)), 1e-5);
  EXPECT_GT(std::abs(losses(0.5, 2).at(0) - thinned.at(0)), 1e-5);
}

// With examples that are alike, ranks that train by themselves stay alike unless they draw.
TEST(Recipe, DropoutDrawsAnewForEveryRank) {
  const ScratchFolder folder;
  Settings options = text_run(folder.path(), std::string(1200, 'a'));
  options.strategy = "none";
  options.epochs = 1;
  const auto ranks_are_alike = [&](double dropout) {
    const ScratchFolder out;
    options.out = out.path();
    options.dropout = dropout;
    train(options);
    const fs::path checkpoint = newest_checkpoint(out.path() / "checkpoints").value();
    const auto places = [&](const char* part) {
      return read_part(checkpoint, read_manifest(checkpoint), part).at("model.position_embedding");
    };
    return at::equal(places("rank-0.safetensors"), places("rank-1.safetensors"));
  };
  EXPECT_TRUE(ranks_are_alike(0));
  EXPECT_FALSE(ranks_are_alike(0.5));
}

TEST(Recipe, EvaluationsHaveNoDropout) {
  const ScratchFolder folder;
  Settings options = text_run(folder.path(), words());
  options.dropout = 0.5;
  const Summary done = train(options)[0];
  const SavedModel saved = load_saved(options.out, {});
  run_ranks({.ranks = 1, .nodes = {"a"}}, [&](World& world) {
    const Datasets data = open_data(options.data);
    EvaluationLoader part(data.test, {.normalisation = saved.input.normalisation});
    DeviceFeed feed(world, at::kCPU);
    const Score score = evaluate(*network_of(saved), feed, part, world.everyone(), world);
    EXPECT_NEAR(score.loss, done.test_loss, 1e-5);
  });
}

TEST(Recipe, AveragedParametersGoOnWithEveryStrategy) {
  for (const char* strategy : {"none", "node", "sync", "local", "daso"}) {
    Settings options = small_run("");
    options.strategy = strategy;
    options.optimizer.ema = 0.9;
    expect_same_bytes_from(12, options);
    expect_same_bytes_from(16, options);
  }
}

// Nodes differ in between, but after an agreement they have one average.
TEST(Recipe, AllNodesEndAnEpochWithTheSameAverage) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.optimizer.ema = 0.9;
  options.checkpoint_every = Every{.number = 4, .unit = Every::Unit::kSteps};
  train(options);
  const auto average = [&](int step, int node) {
    const auto checkpoint = folder.path() / "checkpoints" / fmt::format("step-{:09}", step);
    const State common =
        read_part(checkpoint, read_manifest(checkpoint), fmt::format("node-{}.safetensors", node));
    return common.at("optimizer.ema.fc1.weight");
  };
  for (const int step : {8, 16, 24}) EXPECT_TRUE(at::equal(average(step, 0), average(step, 1)));
  EXPECT_FALSE(at::equal(average(12, 0), average(12, 1)));
}

TEST(Recipe, TheAverageIsEvaluatedAndKept) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.optimizer.ema = 0.9;
  options.keep_best = true;
  options.epochs = 1;
  const Summary done = train(options)[0];
  const SavedModel plain = load_saved(folder.path(), {});
  const SavedModel averaged = load_saved(folder.path(), {.averaged = true});
  const SavedModel best = load_saved(folder.path(), {.best = true});
  EXPECT_FALSE(at::equal(plain.tensors.at("fc1.weight"), averaged.tensors.at("fc1.weight")));
  ASSERT_EQ(best.tensors.size(), averaged.tensors.size());
  for (const auto& [name, tensor] : averaged.tensors) {
    EXPECT_TRUE(at::equal(tensor, best.tensors.at(name))) << name;
  }
  // The score of the summary is that of the average.
  run_ranks({.ranks = 1, .nodes = {"a"}}, [&](World& world) {
    const Datasets data = open_data(options.data);
    EvaluationLoader part(data.test, {.normalisation = averaged.input.normalisation});
    const auto loss = [&](const SavedModel& saved) {
      DeviceFeed feed(world, at::kCPU);
      return evaluate(*network_of(saved), feed, part, world.everyone(), world).loss;
    };
    EXPECT_NEAR(loss(averaged), done.test_loss, 1e-5);
    EXPECT_GT(std::abs(loss(plain) - done.test_loss), 1e-5);
  });
  EXPECT_THROW(load_saved(folder.path(), {.best = true, .averaged = true}), ConfigError);
}

TEST(Recipe, ARunWithoutAnAverageHasNone) {
  const ScratchFolder folder;
  Settings options = small_run(folder.path());
  options.epochs = 1;
  train(options);
  EXPECT_THROW(load_saved(folder.path(), {.averaged = true}), ConfigError);
  options.optimizer.ema = 1;
  EXPECT_THAT(refusal(options), HasSubstr("--ema"));
}

}  // namespace
}  // namespace daso::test
