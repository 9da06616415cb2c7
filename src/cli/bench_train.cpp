// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/train_bench.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/table.h"
#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "daso/launch/ranks.h"
#include "daso/run/rank_device.h"
#include "daso/tensor/bf16.h"

namespace daso::cli {
namespace {

using namespace bench;

using nlohmann::ordered_json;

constexpr double kTrainRate = 1e-3;
constexpr double kMib = 1 << 20;
constexpr int kMostTrainSteps = 100'000'000;
// Settings of a run that this command has, too.
constexpr std::array kOfTheTraining = {
    "model",     "layers", "embedding",     "heads", "batch-size", "accumulate", "optimizer",
    "precision", "graphs", "deterministic", "seed",  "threads",    "strategy",   "skip",
    "wait",      "merge",  "exchange",      "wire",  "bucket-mb",  "device"};

struct BenchTrainOptions {
  LaunchFlags launch;
  Settings run{.model = "resnet50", .strategy = "none"};
  int size = 224;
  int channels = 3;
  int classes = 1000;
  int length = 1024;
  int steps = 50;
  int warmup_steps = 10;
  bool json = false;

  bool text() const { return run.model == "transformer"; }
};

NetworkOptions network_of(const BenchTrainOptions& options) {
  return {.name = options.run.model,
          .text = options.text(),
          .channels = options.channels,
          .height = options.size,
          .width = options.text() ? options.length : options.size,
          .classes = options.classes,
          .transformer = transformer_sizes(options.run)};
}

// At a multiple of skip a round begins, so that the measured ones are whole.
int in_rounds(int steps, const Settings& run) {
  if (!traits_of(run.strategy).cycles) return steps;
  const int skip = preset_of(run, 1).cadence.skip;
  return (steps + skip - 1) / skip * skip;
}

TrainJob job_of(const BenchTrainOptions& options) {
  TrainJob job{.warmup_steps = in_rounds(options.warmup_steps, options.run),
               .steps = in_rounds(options.steps, options.run),
               .run = options.run,
               .network = network_of(options)};
  job.run_plan.rate = [](std::int64_t) { return kTrainRate; };
  job.run_plan.batches = kEndless + 1;
  const Preset preset = preset_of(options.run, 1);
  job.strategy.name = options.run.strategy;
  job.strategy.schedule = {.kind = ScheduleKind::kFixed,
                           .phases = {.epochs = job.run_plan.epochs},
                           .cadence = preset.cadence};
  job.strategy.exchange = preset.exchange;
  job.strategy.bucket_elements = options.run.bucket_elements;
  job.strategy.finite_gradients = options.run.precision != Precision::kFp16;
  return job;
}

// Before any rank starts, so that it is said once.
void check(const BenchTrainOptions& options) {
  validate(options.run);
  require(options.steps <= kMostTrainSteps && options.warmup_steps <= kMostTrainSteps,
          "--steps {} and --warmup-steps {} may be {} at most", options.steps, options.warmup_steps,
          kMostTrainSteps);
}

std::string name_of_device(c10::Device device) {
  return device.is_cpu() ? "CPU" : gpu_of(device).name;
}

// Of all ranks.
struct Speed {
  double examples = 0;  // per second
  double tokens = 0;    // 0 of images
};

Speed speed_of(const World& world, const BenchTrainOptions& options, const TrainResult& result) {
  const double examples = static_cast<double>(options.run.batch_size) * options.run.accumulate *
                          world.size() / result.seconds;
  return {.examples = examples, .tokens = options.text() ? examples * options.length : 0};
}

void print_json(const World& world, const BenchTrainOptions& options, const TrainJob& job,
                c10::Device device, const TrainResult& result) {
  const Speed speed = speed_of(world, options, result);
  ordered_json report = {{"command", "bench train"},
                         {"model", options.run.model},
                         {"parameters", result.parameters},
                         {"precision", name_of(options.run.precision)},
                         {"optimizer", optimizer_name(options.run)},
                         {"batch_size", options.run.batch_size},
                         {"accumulate", options.run.accumulate},
                         {"classes", options.classes}};
  if (options.text()) {
    report["length"] = options.length;
  } else {
    report["size"] = options.size;
  }
  report["device"] = device.str();
  report["device_name"] = name_of_device(device);
  report["graph"] = result.graph;
  report["strategy"] = options.run.strategy;
  report["nodes"] = world.topology().nodes();
  report["ranks"] = world.size();
  report["warmup_steps"] = job.warmup_steps;
  report["steps"] = job.steps;
  report["seconds_per_step"] = result.seconds;
  report["examples_per_second"] = speed.examples;
  if (options.text()) report["tokens_per_second"] = speed.tokens;
  report["device_bytes"] = result.device_bytes;
  report["loss"] = result.loss;
  fmt::print("{}\n", report.dump(2));
}

void print_table(const World& world, const BenchTrainOptions& options, const TrainJob& job,
                 c10::Device device, const TrainResult& result) {
  const Speed speed = speed_of(world, options, result);
  fmt::print(
      "{} of {} parameters, {}, batches of {} on each of {} ranks on {} nodes, strategy {}\n",
      options.run.model, result.parameters, name_of(options.run.precision),
      options.run.batch_size * options.run.accumulate, world.size(), world.topology().nodes(),
      options.run.strategy);
  fmt::print("{} steps after {} of warm-up, {}\n\n", job.steps, job.warmup_steps,
             result.graph ? "as a graph" : "kernel by kernel");
  std::vector<std::pair<std::string, std::string>> rows = {
      {"time per step", format_seconds(result.seconds)},
      {options.text() ? "texts/s" : "images/s", fmt::format("{:.1f}", speed.examples)}};
  if (options.text()) rows.emplace_back("tokens/s", fmt::format("{:.0f}", speed.tokens));
  if (!device.is_cpu()) {
    rows.emplace_back("device memory",
                      fmt::format("{:.0f} MiB", static_cast<double>(result.device_bytes) / kMib));
  }
  fmt::print("{}", section(name_of_device(device), rows));
}

int measure(World& world, const BenchTrainOptions& options) {
  at::set_num_threads(options.run.threads);
  const at::Device device = told_device(world, options.run.device);
  const TrainJob job = job_of(options);
  const TrainResult result = TrainBench(world, device, job).measure();
  if (world.rank() == 0) {
    options.json ? print_json(world, options, job, device, result)
                 : print_table(world, options, job, device, result);
  }
  return kExitOk;
}

int act(const BenchTrainOptions& options, const Invocation& invocation) {
  check(options);
  if (options.run.precision == Precision::kBf16) cap_instruction_sets();
  Configuration configuration = {{"size", std::to_string(options.size)},
                                 {"channels", std::to_string(options.channels)},
                                 {"classes", std::to_string(options.classes)},
                                 {"length", std::to_string(options.length)},
                                 {"steps", std::to_string(options.steps)},
                                 {"warmup-steps", std::to_string(options.warmup_steps)}};
  for (const char* name : kOfTheTraining) {
    configuration.emplace_back(name, setting(name).print(options.run).value_or(""));
  }
  return on_ranks({"bench train", options.launch, kOneRank, configuration}, invocation.arguments,
                  [&](World& world) { return measure(world, options); });
}

void add_size_flags(CLI::App& app, BenchTrainOptions& options) {
  Flags flags(app);
  const auto add = [&](const char* name, const char* meaning, int& value, int at_least) {
    flags.count(name, meaning, value, at_least)->default_str(std::to_string(value));
  };
  add("--size", "Height and width of the images", options.size, 1);
  add("--channels", "Of the images", options.channels, 1);
  add("--classes", "Of the images, or tokens of the vocabulary", options.classes, 2);
  add("--length", "Tokens of a text", options.length, 1);
  add("--steps", "Steps to measure, filled up to whole rounds of --skip", options.steps, 1);
  add("--warmup-steps", "Steps before, not measured; filled up as well", options.warmup_steps, 0);
}

}  // namespace

Command add_bench_train(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("train", "Speed of training a network, with inputs that are there");
  const auto options = std::make_shared<BenchTrainOptions>();
  add_settings(*app, options->run, {kOfTheTraining.begin(), kOfTheTraining.end()});
  add_size_flags(*app, *options);
  app->add_flag("--json", options->json, "Print one JSON object");
  add_launch_flags(*app, options->launch, kOneRank);
  add_world_flags(*app, options->launch);
  app->footer("docs/measuring.md defines every number.");
  return {app, [options](const Invocation& invocation) { return act(*options, invocation); }};
}

}  // namespace daso::cli
