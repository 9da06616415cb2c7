// SPDX-License-Identifier: Apache-2.0
// Runs in fp16 whose gradients overflow at the scale that the loss begins with.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "daso/nets/network.h"
#include "daso/optim/gradients.h"
#include "daso/tensor/safetensors.h"
#include "run_ranks.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;

// One hidden unit is 64 whatever it sees, and no score listens to it yet. The gradient of its
// weight for a class is 64 (p - share): the model gives the class p, about 0.1, and it has a share
// of the batch. Eight examples leave two of ten classes out at least, so one gradient is near 6.4.
// fp16 ends at 65504: that overflows at the scales 65536, 32768 and 16384. None can at 1024.
constexpr float kLarge = 64;
constexpr std::int64_t kFewest = 3;
constexpr std::int64_t kMost = 6;

State first_values() {
  at::manual_seed(1);
  const auto network =
      make_network({.name = "mlp", .channels = 1, .height = 8, .width = 8, .classes = 10});
  State tensors;
  for (const auto& item : network->named_parameters()) {
    tensors[item.key()] = item.value().detach().clone();
  }
  tensors.at("fc2.weight").select(0, 0).zero_();
  tensors.at("fc2.bias").select(0, 0).fill_(kLarge);
  tensors.at("fc3.weight").select(1, 0).zero_();
  return tensors;
}

Settings fp16_run(const fs::path& out) {
  Settings options = small_run(out);
  options.init = (out / "first.safetensors").string();
  write_tensors(options.init, first_values());
  options.precision = Precision::kFp16;
  options.batch_size = 8;
  options.optimizer.name = "adamw";  // takes the large gradients for what they are
  options.lr = 0.005;
  return options;
}

struct Outcome {
  std::vector<Summary> summaries;      // of each rank
  std::vector<at::Tensor> parameters;  // likewise
  std::vector<double> losses;          // of each epoch
};

Outcome run_on_two_nodes(const Settings& options) {
  const std::vector<std::string> nodes = {"a", "a", "b", "b"};
  Outcome done;
  done.summaries.resize(nodes.size());
  done.parameters.resize(nodes.size());
  run_ranks({.ranks = static_cast<int>(nodes.size()), .nodes = nodes}, [&](World& world) {
    Run run(options);
    Session session(world, run);
    const auto on_progress = [&](const Progress& now) {  // on rank 0 alone
      if (now.test) done.losses.push_back(now.loss);
    };
    const auto rank = static_cast<std::size_t>(world.rank());
    done.summaries[rank] = session.train(on_progress, [] { return std::optional<int>(); });
    done.parameters[rank] = session.model().parameters().detach().clone();
  });
  return done;
}

struct Kind {
  const char* name;
  const char* strategy;
  std::optional<int> warmup_epochs;
};

TEST(SkippedSteps, AreCountedAndTrainingGoesOn) {
  for (const Kind& kind :
       {Kind{"all ranks skip together", "sync", {}}, Kind{"they do so in the warm-up", "daso", {}},
        Kind{"nodes skip by themselves", "daso", 0}}) {
    SCOPED_TRACE(kind.name);
    const ScratchFolder folder;
    Settings options = fp16_run(folder.path());
    options.strategy = kind.strategy;
    options.warmup_epochs = kind.warmup_epochs;
    const Outcome done = run_on_two_nodes(options);
    const Summary& summary = done.summaries[0];
    EXPECT_EQ(summary.steps, 24);
    EXPECT_GE(summary.skipped_steps, kFewest);
    EXPECT_LE(summary.skipped_steps, kMost);
    EXPECT_NE(text_of(summary).find(fmt::format("\"skipped_steps\": {}", summary.skipped_steps)),
              std::string::npos);
    for (const at::Tensor& parameters : done.parameters) {
      EXPECT_TRUE(at::equal(parameters, done.parameters[0]));
    }
    EXPECT_TRUE(done.parameters[0].isfinite().all().item<bool>());
    ASSERT_EQ(done.losses.size(), 3U);
    EXPECT_LT(done.losses[2], done.losses[0]);
  }
}

TEST(SkippedSteps, ChangeTheScaleAloneAndAreResumed) {
  const ScratchFolder whole;
  Settings options = fp16_run(whole.path());
  options.strategy = "sync";
  options.epochs = 1;
  options.checkpoint_every = Every{.number = 1, .unit = Every::Unit::kSteps};
  EXPECT_GE(train(options)[0].skipped_steps, kFewest);
  const auto checkpoint = [&](int step) {
    return whole.path() / "checkpoints" / fmt::format("step-{:09}", step);
  };
  const auto state = [&](int step) {
    return read_part(checkpoint(step), read_manifest(checkpoint(step)), "node-0.safetensors");
  };
  const State first = read_tensors(options.init).tensors;
  for (int step = 1; step <= kFewest; ++step) {
    const State skipped = state(step);
    EXPECT_EQ(real_in(skipped, "scaler.scale"), std::ldexp(LossScaler::kFirst, -step));
    for (const auto& [name, tensor] : first) {
      EXPECT_TRUE(at::equal(skipped.at("model." + name), tensor)) << name << " in step " << step;
    }
  }
  EXPECT_FALSE(at::equal(state(16).at("model.fc1.weight"), first.at("fc1.weight")));

  const ScratchFolder rest;
  options.out = rest.path();
  options.resume = true;
  options.resume_from = checkpoint(2);
  train(options);
  EXPECT_TRUE(result_in(rest.path()) == result_in(whole.path()));
}

}  // namespace
}  // namespace daso::test
