// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/strategy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {

// In files of their own.
using MakeStrategy = std::unique_ptr<Strategy>(const StrategySetup& setup);
MakeStrategy make_none, make_node, make_sync, make_local, make_daso;

namespace {

std::vector<StrategyEntry> strategies() {
  return {
      {"none", {.ties = Reach::kRank, .equal_after_epoch = false}, make_none},
      {"node", {.ties = Reach::kNode, .equal_after_epoch = false}, make_node},
      {"sync", {}, make_sync},
      {"local", {.cycles = true}, make_local},
      {"daso", {.cycles = true, .merges_late = true}, make_daso},
  };
}

StrategyEntry entry_of(const std::string& name) {
  for (const StrategyEntry& entry : strategies()) {
    if (name == entry.name) return entry;
  }
  const std::vector<std::string> names = strategy_names();
  throw ConfigError(fmt::format("there is no strategy '{}'; did you mean {}? There are {}", name,
                                nearest(name, names).value_or(names.front()), join(names, ", ")));
}

StrategyEntry entry_of(const StrategyOptions& options) {
  return options.own ? *options.own : entry_of(options.name);
}

void validate(const StrategyOptions& options) {
  if (traits_of(options).merges_late) validate(options.exchange);
  require(options.bucket_elements >= 1, "a bucket holds at least 1 element, got {}",
          options.bucket_elements);
}

void warn(const World& world, const Optimizer& optimizer, const StrategyOptions& options) {
  if (!traits_of(options).merges_late || world.rank() != 0) return;
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

bool change_parameters(const StrategyEvents& events) {
  using Kind = StrategyEvent::Kind;
  return std::ranges::any_of(events, [](const StrategyEvent& event) {
    return event.kind == Kind::kMerge || event.kind == Kind::kAverage || event.kind == Kind::kAgree;
  });
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const StrategyEntry& entry : strategies()) names.emplace_back(entry.name);
  return names;
}

StrategyTraits traits_of(const std::string& strategy) { return entry_of(strategy).traits; }

StrategyTraits traits_of(const StrategyOptions& options) { return entry_of(options).traits; }

StrategyOptions options_of(const Preset& preset, const RunPlan& run_plan) {
  const Peak peak = peak_of(run_plan.rate, run_plan.steps());
  StrategyOptions options;
  options.exchange = preset.exchange;
  options.schedule.kind = preset.schedule;
  options.schedule.cadence = preset.cadence;
  options.schedule.alpha = peak.rate;
  options.schedule.phases = {
      .epochs = run_plan.epochs,
      .warmup = preset.warmup_epochs.value_or(warmup_epochs_until(peak.step, run_plan.batches)),
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
  const StrategyEntry entry = entry_of(options);
  validate(options);
  warn(world, optimizer, options);
  if (options.spread && entry.traits.ties != Reach::kRank) spread_model(world, model);
  return entry.make({world, model, optimizer, options});
}

}  // namespace daso
