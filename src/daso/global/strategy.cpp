// SPDX-License-Identifier: Apache-2.0
#include "daso/global/strategy.h"

#include <ATen/ATen.h>

#include <array>
#include <cstdio>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/global/averaging_strategy.h"
#include "daso/global/preset.h"

namespace daso {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Strategy> (*make)(const StrategyParts&);
};

constexpr std::array kStrategies = {Entry{"none", make_none}, Entry{"node", make_node},
                                    Entry{"sync", make_sync}, Entry{"local", make_local},
                                    Entry{"daso", make_daso}};

void validate(const StrategyOptions& options) {
  if (options.name == "daso") validate(options.exchange);
  require(options.bucket_elements >= 1, "a bucket holds at least 1 element, got {}",
          options.bucket_elements);
}

void warn(const World& world, const Optimizer& optimizer, const StrategyOptions& options) {
  if (options.name != "daso" || world.rank() != 0) return;
  const Risks risks{.nodes = world.topology().nodes(),
                    .schedule = options.schedule.kind,
                    .cadence = options.schedule.cadence,
                    .adamw = optimizer.name() == "adamw",
                    .wire = options.exchange.wire};
  for (const std::string& warning : warnings_for(risks)) {
    fmt::print(stderr, "daso: warning: {}\n", warning);
  }
}

}  // namespace

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kStrategies) names.emplace_back(entry.name);
  return names;
}

StrategyOptions options_of(const Preset& preset, const Course& course) {
  const Peak peak = peak_of(course.rate, course.steps());
  StrategyOptions options;
  options.exchange = preset.exchange;
  options.schedule.kind = preset.schedule;
  options.schedule.cadence = preset.cadence;
  options.schedule.alpha = peak.rate;
  options.schedule.phases = {
      .epochs = course.epochs,
      .warmup = preset.warmup_epochs.value_or(warmup_epochs_until(peak.step, course.batches)),
      .cooldown = preset.cooldown_epochs};
  return options;
}

void spread_model(World& world, const FlatModel& model) {
  Communicator& all = world.everyone();
  const auto spread = [&](const at::Tensor& tensor) {
    all.broadcast(tensor, 0).wait(world.limit());
  };
  spread(model.parameters());
  spread(model.buffers());
  const at::NoGradGuard no_grad;
  for (const at::Tensor& tensor : model.others()) {
    // Of any layout and type, bool included, which does not travel itself.
    const bool logical = tensor.scalar_type() == at::kBool;
    const at::Tensor copy =
        tensor.to(logical ? at::kChar : tensor.scalar_type()).contiguous().clone();
    spread(copy);
    tensor.copy_(copy);
  }
}

std::unique_ptr<Strategy> make_strategy(World& world, FlatModel& model, Optimizer& optimizer,
                                        const StrategyOptions& options) {
  validate(options);
  for (const Entry& entry : kStrategies) {
    if (options.name != entry.name) continue;
    warn(world, optimizer, options);
    if (options.name != "none") spread_model(world, model);
    return entry.make({world, model, optimizer, options});
  }
  throw ConfigError(fmt::format("there is no strategy '{}'; there are {}", options.name,
                                join(strategy_names(), ", ")));
}

}  // namespace daso
