// SPDX-License-Identifier: Apache-2.0
// Whole runs on a GPU, with their files.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "daso/tensor/bf16.h"
#include "daso/tensor/device.h"
#include "run/runs.h"
#include "run_ranks.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

const bool kCapped = (cap_instruction_sets(), true);  // before anything computes in bf16

constexpr double kNear = 1e-3;  // losses of the same run on two devices

class GpuSession : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = find_device({.kind = DeviceChoice::Kind::kCuda}, 0).device;
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
  }

  // One rank, so that a graph can be recorded: ranks are threads here.
  RunOptions here() const {
    RunOptions options;
    options.nodes = {"a"};
    options.device = device_;
    return options;
  }

  at::Device device_{at::kCPU};
};

Settings same_bits(const std::filesystem::path& out, Graphs graphs) {
  Settings settings = small_run(out);
  settings.model = "cnn";
  settings.precision = Precision::kBf16;
  settings.deterministic = true;
  settings.graphs = graphs;
  settings.checkpoint_every = Every{.number = 6, .unit = Every::Unit::kSteps};
  return settings;
}

// With a graph and without one, at once and from a checkpoint on.
TEST_F(GpuSession, EndsWithTheSameBytesWhateverItsWay) {
  const ScratchFolder whole;
  train(same_bits(whole.path(), Graphs::kAuto), here());
  for (const Graphs graphs : {Graphs::kAuto, Graphs::kOff}) {
    const ScratchFolder resumed;
    Settings settings = same_bits(resumed.path(), graphs);
    settings.resume = true;
    settings.resume_from = whole.path() / "checkpoints" / "step-000000006";
    train(settings, here());
    EXPECT_TRUE(result_in(resumed.path()) == result_in(whole.path()));
  }
}

// Three runs of an epoch each, of which every one goes on from the one before.
double loss_after_three(const RunOptions& first, const RunOptions& second) {
  const ScratchFolder out;
  Settings settings = small_run(out.path());
  settings.epochs = 1;
  train(settings, first);
  settings.resume = true;
  settings.epochs = 2;
  EXPECT_EQ(train(settings, second).front().steps, 32);
  settings.epochs = 3;
  const Summary summary = train(settings, first).front();
  EXPECT_EQ(summary.steps, 48);
  return summary.test_loss;
}

TEST_F(GpuSession, GoesOnWithARunOfTheCpuAndBack) {
  RunOptions cpu = here();
  cpu.device = at::kCPU;
  EXPECT_NEAR(loss_after_three(cpu, here()), loss_after_three(cpu, cpu), kNear);
}

// Two ranks that share the GPU, with an exchange between their nodes.
TEST_F(GpuSession, EveryStrategyTrainsAndItsTraceHasTheDevicesTimes) {
  for (const std::string& strategy : strategy_names()) {
    SCOPED_TRACE(strategy);
    const ScratchFolder out;
    Settings settings = small_run(out.path());
    settings.strategy = strategy;
    settings.graphs = Graphs::kOff;
    settings.trace = StepRange{.first = 0, .end = 1000};
    RunOptions ranks = here();
    ranks.nodes = {"a", "b"};
    const double loss = train(settings, ranks).front().test_loss;
    const auto trace = nlohmann::json::parse(bytes_of(out.path() / "trace.json"));
    std::map<std::string, int> seen;
    for (const auto& event : trace["traceEvents"]) ++seen[event["name"]];
    EXPECT_GT(seen["compute a step"], 0);
    if (strategy == "daso") {
      for (const char* name : {"encode", "copy to the host", "copy from the host", "merge"}) {
        EXPECT_GT(seen[name], 0) << name;
      }
    }
    const ScratchFolder on_cpu;
    settings.out = on_cpu.path();
    ranks.device = at::kCPU;
    EXPECT_NEAR(loss, train(settings, ranks).front().test_loss, kNear);
  }
}

// The loss of its one step is finite, the gradient is 0 / 0.
TEST_F(GpuSession, NamesTheStepWhoseGradientsAreNotFinite) {
  const ScratchFolder out;
  torch::nn::Linear net(3, 2);
  Task task{.module = net,
            .train = tensors(at::ones({64, 3}), at::zeros({64}, at::kLong)),
            .test = tensors(at::ones({8, 3}), at::zeros({8}, at::kLong)),
            .loss = [net](const Batch& batch) mutable {
              return net(batch.inputs).mean() + at::sqrt(net->weight * 0).sum();
            }};
  Settings settings;
  settings.out = out.path();
  settings.strategy = "none";
  settings.checkpoint_every = Every{.number = 1, .unit = Every::Unit::kSteps};
  run_ranks({.ranks = 1}, [&](World& world) {
    daso::Run run(settings, task, device_);
    Session session(world, run);
    try {
      session.train([](const Progress&) {}, {});
      FAIL() << "it trains on";
    } catch (const Error& error) {
      EXPECT_TRUE(
          std::string(error.what()).starts_with("gradients of rank 0 are not finite in step 0: "))
          << error.what();
    }
  });
  EXPECT_FALSE(newest_checkpoint(out.path() / "checkpoints").has_value());
}

}  // namespace
}  // namespace daso::test
