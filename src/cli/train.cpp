// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "daso/train/interrupt.h"
#include "daso/train/trainer.h"

namespace daso {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr Shape kShape{.nodes = 2, .ranks_per_node = 2};
constexpr Seconds kBetweenLines{0.2};      // on a terminal
constexpr std::int64_t kRecordEvery = 10;  // steps, in metrics.jsonl

struct TrainCommand {
  LaunchFlags launch;
  TrainOptions options;
  std::string config;
  bool json = false;
};

// runs/2026-11-15-101530
fs::path default_folder() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d-%H%M%S", &local);
  return fs::path("runs") / text.data();
}

// Rank 0's, since every rank has a clock of its own.
fs::path agreed_folder(World& world, const fs::path& asked) {
  constexpr std::int64_t kLongest = 4096;
  const std::string own = (asked.empty() ? default_folder() : asked).string();
  require(static_cast<std::int64_t>(own.size()) < kLongest, "--out is too long");
  const at::Tensor text = at::zeros({kLongest}, at::kChar);
  std::copy(own.begin(), own.end(), text.mutable_data_ptr<std::int8_t>());
  world.everyone().broadcast(text, 0).wait(world.limit());
  return reinterpret_cast<const char*>(text.const_data_ptr<std::int8_t>());
}

json record_of(const Progress& now) {
  json record = {{"step", now.when.step},       {"epoch", now.when.epoch},
                 {"phase", name_of(now.phase)}, {"learning_rate", now.when.rate},
                 {"train_loss", now.loss},      {"samples_per_second", now.samples_per_second},
                 {"wait_share", now.wait_share}};
  if (now.test) {
    record["test_loss"] = now.test->loss;
    record["test_accuracy"] = now.test->accuracy;
  }
  return record;
}

// What rank 0 shows and records.
class Reporter {
 public:
  Reporter(const fs::path& out, bool quiet)
      : metrics_(out / "metrics.jsonl", std::ios::app),
        quiet_(quiet),
        terminal_(::isatty(STDOUT_FILENO) == 1) {}

  void operator()(const Progress& now) {
    if (now.test || now.when.step % kRecordEvery == 0)
      metrics_ << record_of(now).dump() << std::endl;
    if (quiet_) return;
    if (now.test) {
      fmt::print(
          "{}epoch {:3} of {}  {:8}  loss {:.4f}  test loss {:.4f}  accuracy {:.4f}  "
          "{:.0f} samples/s  waiting {:.1f} %\n",
          terminal_ ? "\r\033[K" : "", now.when.epoch + 1, now.epochs, name_of(now.phase), now.loss,
          now.test->loss, now.test->accuracy, now.samples_per_second, 100 * now.wait_share);
      std::fflush(stdout);
    } else if (terminal_ && since(last_) > kBetweenLines) {
      last_ = Clock::now();
      show_bar(now);
    }
  }

 private:
  void show_bar(const Progress& now) {
    constexpr int kWidth = 24;
    const double done =
        static_cast<double>(now.when.batch + 1) / static_cast<double>(now.when.last + 1);
    const int filled = static_cast<int>(done * kWidth);
    const double left = since(begin_).count() * (1 / total_done(now) - 1);
    fmt::print(
        "\r\033[Kepoch {:3} of {} [{:#>{}}{:.>{}}] {}  loss {:.4f}  {:.0f} samples/s  "
        "waiting {:.1f} %  {:.0f} s left",
        now.when.epoch + 1, now.epochs, "", filled, "", kWidth - filled, name_of(now.phase),
        now.loss, now.samples_per_second, 100 * now.wait_share, left);
    std::fflush(stdout);
  }

  // Part of the run that is done since the first call.
  double total_done(const Progress& now) {
    const double epochs =
        static_cast<double>(now.when.step + 1) / static_cast<double>(now.when.last + 1);
    return std::max(1e-6, epochs / now.epochs);
  }

  std::ofstream metrics_;
  const bool quiet_;
  const bool terminal_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

void print_start(const World& world, const TrainCommand& command, const Trainer& trainer) {
  const TrainOptions& o = command.options;
  fmt::print("{} on {} with {}: {} ranks on {} nodes, {} epochs\n", o.model, o.data, o.strategy,
             world.size(), world.topology().nodes(), o.epochs);
  fmt::print("output in {}\n", o.out.string());
  if (const auto place = trainer.resumed()) {
    fmt::print("going on with step {}, epoch {}\n", place->step, place->epoch + 1);
  } else if (o.resume) {
    fmt::print("there is no complete checkpoint in {} yet: starting afresh\n", o.out.string());
  }
  std::fflush(stdout);
}

int train(World& world, TrainCommand command) {
  command.options.out = agreed_folder(world, command.options.out);
  const fs::path& out = command.options.out;
  fs::create_directories(out);
  Trainer trainer(world, command.options);
  const bool first = world.rank() == 0;
  if (first && !trainer.resumed()) {
    std::ofstream(out / "config.toml") << toml_of(configuration_of(command.options));
  }
  if (first && !command.json) print_start(world, command, trainer);
  if (trainer.finished() && first && !command.json) {
    fmt::print("this run is finished: all {} epochs are done\n", command.options.epochs);
  }
  std::optional<Reporter> report;
  if (first) report.emplace(out, command.json);
  const Interrupt interrupt;
  const Summary summary =
      trainer.run([&](const Progress& now) { (*report)(now); }, [&] { return interrupt.signal(); });
  if (!first) return summary.exit;
  std::ofstream(out / "summary.json") << text_of(summary);
  if (command.json) {
    fmt::print("{}", text_of(summary));
  } else {
    fmt::print(
        "accuracy {:.4f} after {} steps in {:.1f} s; summary, metrics and checkpoints are in "
        "{}\ntry next: daso eval {}   daso export {} --format safetensors --to model.safetensors\n",
        summary.test_accuracy, summary.steps, summary.seconds, out.string(), out.string(),
        out.string());
  }
  return summary.exit;
}

int act(CLI::App& app, TrainCommand& command, const Invocation& invocation) {
  if (!command.config.empty()) apply_config_file(app, command.config);
  validate(command.options);
  return on_ranks({"train", command.launch, kShape, configuration_of(command.options)}, invocation,
                  [&](World& world) { return train(world, command); });
}

}  // namespace

Command add_train(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("train", "Train a model, from data to checkpoints");
  const auto command = std::make_shared<TrainCommand>();
  app->add_option("--config", command->config, "TOML file with flags by name; flags given win");
  add_train_flags(*app, command->options);
  app->add_flag("--json", command->json, "Print the summary alone, as JSON");
  add_launch_flags(*app, command->launch, kShape);
  add_world_flags(*app, command->launch);
  app->footer("docs/training.md tells more.");
  return {app,
          [app, command](const Invocation& invocation) { return act(*app, *command, invocation); }};
}

}  // namespace daso
