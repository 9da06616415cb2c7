// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/step_bench.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/table.h"
#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/base/values.h"
#include "daso/launch/ranks.h"
#include "daso/run/rank_device.h"

namespace daso::cli {
namespace {

using namespace bench;

using nlohmann::ordered_json;

constexpr double kLearningRate = 1e-3;
constexpr double kMebibyte = 1 << 20;
constexpr double kLongestMs = 3'600'000;  // an hour; more is a mistake
constexpr std::int64_t kMostSteps = 100'000'000;
// Settings of a run that this command has, too.
constexpr std::array kOfTheRun = {"strategy", "skip", "wait",      "merge",
                                  "exchange", "wire", "bucket-mb", "device"};

struct BenchStepOptions {
  LaunchFlags launch;
  EmulatedModelOptions model;
  PaceOptions pace;
  // Of it only what the strategy does.
  Settings run{.skip = Cadence{}.skip,
               .wait = Cadence{}.wait,
               .merge = MergeRule::kCorrected,
               .exchange = ExchangeKind::kSharded,
               .device = {.kind = DeviceChoice::Kind::kCpu}};
  int steps = 20;
  int warmup_steps = 8;
  std::optional<int> batches;
  std::string trace;
  bool json = false;

  Preset preset() const { return preset_of(run, 1); }
};

// Before any rank starts, so that it is said once.
void validate(const BenchStepOptions& options) {
  const Preset preset = options.preset();
  validate(preset.cadence);
  const std::int64_t steps = std::int64_t{options.steps} + options.warmup_steps;
  require(steps + 2 * std::int64_t{preset.cadence.skip} <= kMostSteps,
          "--steps {} and --warmup-steps {} in rounds of --skip {} are too many; the limit is {}",
          options.steps, options.warmup_steps, preset.cadence.skip, kMostSteps);
  require(options.model.layers <= options.model.parameters,
          "--layers {} is more than --parameters {}: every layer needs at least one",
          options.model.layers, options.model.parameters);
  require(preset.exchange.kind != ExchangeKind::kRotating || preset.exchange.wire == Wire::kFp32,
          "--wire {} does not go with --exchange rotating, which sends whole models in fp32; use "
          "--exchange sharded, or --wire fp32",
          name_of(preset.exchange.wire));
  const std::filesystem::path folder = std::filesystem::path(options.trace).parent_path();
  require(folder.empty() || is_folder(folder),
          "--trace {}: there is no folder {}; make it, or name another", options.trace,
          folder.string());
}

// At a multiple of skip a round begins, so that the measured ones are whole.
int whole_rounds(int steps, int skip) { return (steps + skip - 1) / skip * skip; }

StrategyOptions strategy_options(const BenchStepOptions& options, const RunPlan& run_plan) {
  StrategyOptions chosen;
  chosen.name = options.run.strategy;
  chosen.schedule = {.kind = ScheduleKind::kFixed,
                     .phases = {.epochs = run_plan.epochs},
                     .cadence = options.preset().cadence};
  chosen.exchange = options.preset().exchange;
  chosen.bucket_elements = options.run.bucket_elements;
  return chosen;
}

StepJob job_of(const BenchStepOptions& options) {
  const int skip = options.preset().cadence.skip;
  StepJob job{.warmup_steps = whole_rounds(options.warmup_steps, skip),
              .steps = whole_rounds(options.steps, skip),
              .model = options.model,
              .pace = options.pace,
              .trace = options.trace};
  job.run_plan.rate = [](std::int64_t) { return kLearningRate; };
  job.run_plan.batches = kEndless + 1;
  if (options.batches) {
    const int all = job.warmup_steps + job.steps;
    job.run_plan.batches = *options.batches;
    job.run_plan.epochs = (all + *options.batches - 1) / *options.batches;
  }
  job.strategy = strategy_options(options, job.run_plan);
  return job;
}

// What a step sleeps at least, on the node that sleeps longest.
double ideal_seconds(const StepJob& job, int nodes) {
  double longest = 0;
  for (int node = 0; node < nodes; ++node) {
    Seconds sum{0};
    for (int step = job.warmup_steps; step < job.warmup_steps + job.steps; ++step) {
      const Pace pace = pace_of(job.pace, nodes, node, step);
      sum += pace.stall + pace.stretch * (job.model.forward + job.model.backward);
    }
    longest = std::max(longest, sum.count() / job.steps);
  }
  return longest;
}

void print_json(const World& world, const BenchStepOptions& options, const StepJob& job,
                const StepResult& result) {
  const Cadence& cadence = job.strategy.schedule.cadence;
  const ExchangeOptions& exchange = job.strategy.exchange;
  const auto bucket_bytes = static_cast<double>(job.strategy.bucket_elements * 4);
  ordered_json report = {{"command", "bench step"},
                         {"strategy", options.run.strategy},
                         {"backend", world.backend()},
                         {"nodes", world.topology().nodes()},
                         {"ranks", world.size()},
                         {"layers", options.model.layers},
                         {"parameters", options.model.parameters},
                         {"skip", cadence.skip},
                         {"wait", cadence.wait},
                         {"wire", name_of(exchange.wire)},
                         {"exchange", name_of(exchange.kind)},
                         {"merge", name_of(exchange.merge)},
                         {"bucket_mb", bucket_bytes / kMebibyte},
                         {"warmup_steps", job.warmup_steps},
                         {"steps", job.steps},
                         {"steps_asked", options.steps}};
  if (options.batches) report["batches"] = *options.batches;
  if (options.pace.noise > 0) report["noise"] = options.pace.noise;
  if (options.pace.stall_chance > 0) {
    report["stall_chance"] = options.pace.stall_chance;
    report["stall_ms"] = options.pace.stall.count() * 1000;
  }
  report["seconds_ideal"] = ideal_seconds(job, world.topology().nodes());
  report["seconds_per_step"] = result.seconds;
  report["wait_seconds"] = result.wait_seconds;
  report["cpu_seconds"] = result.cpu_seconds;
  report["bytes_between_nodes"] = result.bytes_between_nodes;
  fmt::print("{}\n", report.dump(2));
}

void print_table(const World& world, const BenchStepOptions& options, const StepJob& job,
                 const StepResult& result) {
  std::string what = fmt::format("{} on {} ranks on {} nodes, backend {}", options.run.strategy,
                                 world.size(), world.topology().nodes(), world.backend());
  const Cadence& cadence = job.strategy.schedule.cadence;
  if (traits_of(options.run.strategy).merges_late) {
    const ExchangeOptions& exchange = job.strategy.exchange;
    what +=
        fmt::format("; {}, {}, {}, skip {}, wait {}", name_of(exchange.kind),
                    name_of(exchange.wire), name_of(exchange.merge), cadence.skip, cadence.wait);
  }
  const std::string asked =
      job.steps == options.steps
          ? ""
          : fmt::format("; {} were asked for, rounds of {} are whole", options.steps, cadence.skip);
  fmt::print("{} parameters in {} layers, {} steps after {} of warm-up{}\n\n",
             options.model.parameters, options.model.layers, job.steps, job.warmup_steps, asked);
  fmt::print(
      "{}",
      section(what, {{"time per step", format_seconds(result.seconds)},
                     {"asleep in it", format_seconds(ideal_seconds(job, world.topology().nodes()))},
                     {"waiting per step", format_seconds(result.wait_seconds)},
                     {"processor per step", format_seconds(result.cpu_seconds)},
                     {"bytes between nodes per step and node",
                      fmt::format("{:.0f}", result.bytes_between_nodes)}}));
}

int measure(World& world, const BenchStepOptions& options) {
  at::set_num_threads(1);
  StepJob job = job_of(options);
  job.model.device = told_device(world, options.run.device);
  const StepResult result = StepBench(world, job).measure();
  if (world.rank() == 0) {
    options.json ? print_json(world, options, job, result)
                 : print_table(world, options, job, result);
  }
  return kExitOk;
}

int act(const BenchStepOptions& options, const Invocation& invocation) {
  validate(options);
  const EmulatedModelOptions& model = options.model;
  Configuration configuration = {{"layers", std::to_string(model.layers)},
                                 {"parameters", std::to_string(model.parameters)},
                                 {"forward-ms", fmt::format("{}", model.forward.count() * 1000)},
                                 {"backward-ms", fmt::format("{}", model.backward.count() * 1000)},
                                 {"steps", std::to_string(options.steps)},
                                 {"warmup-steps", std::to_string(options.warmup_steps)},
                                 {"batches", std::to_string(options.batches.value_or(0))},
                                 {"noise", fmt::format("{}", options.pace.noise)},
                                 {"stall-chance", fmt::format("{}", options.pace.stall_chance)},
                                 {"stall-ms", fmt::format("{}", options.pace.stall.count() * 1000)},
                                 {"seed", std::to_string(options.pace.seed)},
                                 {"trace", options.trace}};
  for (const char* name : kOfTheRun) {
    configuration.emplace_back(name, setting(name).print(options.run).value_or(""));
  }
  return on_ranks({"bench step", options.launch, kSmallCluster, configuration},
                  invocation.arguments, [&](World& world) { return measure(world, options); });
}

Seconds parse_milliseconds(const std::string& flag, const std::string& text) {
  const double value = parse_number(flag, text);
  require(value >= 0 && value <= kLongestMs, "{} takes milliseconds from 0 to {}, got '{}'", flag,
          kLongestMs, text);
  return Seconds(value / 1000);
}

double parse_noise(const std::string& flag, const std::string& text) {
  constexpr double kAll = 100;
  const double value = parse_number(flag, text);
  require(value >= 0 && value <= kAll, "{} takes a share from 0 to {}, got '{}'", flag, kAll, text);
  return value;
}

double parse_chance(const std::string& flag, const std::string& text) {
  const double value = parse_number(flag, text);
  require(value >= 0 && value <= 1, "{} takes a probability from 0 to 1, got '{}'", flag, text);
  return value;
}

void add_work_flags(CLI::App& app, BenchStepOptions& options) {
  Flags flags(app);
  EmulatedModelOptions& model = options.model;
  flags.count("--layers", "Layers of the model", model.layers, 1)
      ->default_str(std::to_string(model.layers));
  flags.count("--parameters", "Elements of all layers together", model.parameters, 1)
      ->default_str(std::to_string(model.parameters));
  flags.parsed("--forward-ms", "Time that forward takes", model.forward, parse_milliseconds)
      ->default_str(fmt::format("{}", model.forward.count() * 1000));
  flags.parsed("--backward-ms", "Time that backward takes", model.backward, parse_milliseconds)
      ->default_str(fmt::format("{}", model.backward.count() * 1000));
  flags.count("--steps", "Steps to measure, filled up to whole rounds of --skip", options.steps, 1)
      ->default_str(std::to_string(options.steps));
  flags
      .count("--warmup-steps", "Steps before, not measured; filled up as well",
             options.warmup_steps, 0)
      ->default_str(std::to_string(options.warmup_steps));
  flags.count("--batches", "Steps of an epoch (one epoch without end)", options.batches, 1);
  app.add_option("--trace", options.trace, "File for a trace of the measured steps")
      ->type_name("FILE");
}

void add_pace_flags(CLI::App& app, PaceOptions& pace) {
  Flags flags(app);
  flags
      .parsed("--noise", "The last node computes longer, by a share drawn from 0 to twice this",
              pace.noise, parse_noise)
      ->default_str("0");
  flags
      .parsed("--stall-chance", "Of each node, that it pauses before a step", pace.stall_chance,
              parse_chance)
      ->default_str("0");
  flags.parsed("--stall-ms", "How long it does", pace.stall, parse_milliseconds)
      ->default_str(fmt::format("{}", pace.stall.count() * 1000));
  flags.parsed("--seed", "Of noise and stalls", pace.seed, parse_seed)
      ->default_str(std::to_string(pace.seed));
}

}  // namespace

Command add_bench_step(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("step", "Time per step of a job whose accelerator is emulated");
  const auto options = std::make_shared<BenchStepOptions>();
  add_settings(*app, options->run, {kOfTheRun.begin(), kOfTheRun.end()});
  add_work_flags(*app, *options);
  add_pace_flags(*app, options->pace);
  app->add_flag("--json", options->json, "Print one JSON object");
  add_launch_flags(*app, options->launch, kSmallCluster);
  add_world_flags(*app, options->launch);
  app->footer("docs/measuring.md defines every number.");
  return {app, [options](const Invocation& invocation) { return act(*options, invocation); }};
}

}  // namespace daso::cli
