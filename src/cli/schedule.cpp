// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/table.h"
#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/policy/cycle.h"
#include "daso/policy/preset.h"

namespace daso::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kEpochs = 10;
constexpr std::int64_t kMostWalked = 100'000'000;  // the command walks through all of them

struct ScheduleFlags {
  Settings run{.epochs = kEpochs};  // of it only what decides when it exchanges
  std::vector<double> rates;        // instead of what `run` says: one a step
  std::vector<double> losses;       // one an epoch
  int batches = 100;
  int nodes = 2;
  int ranks_per_node = 2;  // as of daso train
  bool json = false;
  const CLI::Option* epochs = nullptr;
  std::vector<CLI::Option*> rate_flags;
  std::vector<CLI::Option*> batch_flags;  // what --base-lr is scaled by
};

// A flag that would change nothing is a mistake.
void refuse_idle_flags(const ScheduleFlags& flags) {
  for (const CLI::Option* flag : flags.rate_flags) {
    require(
        flags.rates.empty() || flag->count() == 0,
        "--learning-rates gives the rate of every step, {} would change nothing: give one of them",
        flag->get_name());
  }
  for (const CLI::Option* flag : flags.batch_flags) {
    require(flags.run.base_lr.has_value() || flag->count() == 0,
            "{} changes nothing here: it is for --base-lr", flag->get_name());
  }
  const bool plateau = preset_of(flags.run, flags.nodes).schedule == ScheduleKind::kPlateau;
  require(plateau || flags.losses.empty(),
          "--losses changes nothing here: it is for --schedule plateau");
  require(!plateau || !flags.losses.empty(),
          "--schedule plateau follows the training loss: give one an epoch with --losses");
}

int epochs_of(const ScheduleFlags& flags) {
  if (flags.epochs->count() > 0) return flags.run.epochs;
  if (!flags.losses.empty()) return static_cast<int>(flags.losses.size());
  if (flags.rates.empty()) return flags.run.epochs;
  // Rounded up: a last epoch that is not full is refused for its missing rates.
  return static_cast<int>((flags.rates.size() - 1) / static_cast<std::size_t>(flags.batches)) + 1;
}

void check_amounts(const ScheduleFlags& flags, int epochs) {
  const std::int64_t steps = std::int64_t{epochs} * flags.batches;
  require(steps <= kMostWalked,
          "{} epochs of {} steps are too many to walk through, the limit is {} steps", epochs,
          flags.batches, kMostWalked);
  require(flags.losses.empty() || std::cmp_equal(flags.losses.size(), epochs),
          "--losses takes one loss an epoch: {} for this run, got {}", epochs, flags.losses.size());
  require(flags.rates.empty() || std::cmp_equal(flags.rates.size(), steps),
          "--learning-rates takes one rate a step: {} for {} epochs of {} steps, got {}", steps,
          epochs, flags.batches, flags.rates.size());
  require(std::all_of(flags.rates.begin(), flags.rates.end(),
                      [](double rate) { return std::isfinite(rate); }),
          "--learning-rates takes finite numbers only");
  require(std::int64_t{flags.nodes} * flags.ranks_per_node <= std::numeric_limits<int>::max(),
          "{} nodes of {} ranks are too many to count", flags.nodes, flags.ranks_per_node);
}

RunPlan run_plan_of(const ScheduleFlags& flags, const Settings& run) {
  if (!flags.rates.empty()) {
    return {.epochs = run.epochs,
            .batches = flags.batches,
            .rate = [rates = flags.rates](std::int64_t step) {
              return rates[static_cast<std::size_t>(step)];
            }};
  }
  require(run.lr_schedule != RateKind::kPlateau,
          "--lr-schedule plateau follows the training loss, which nobody knows before the run: "
          "give the rates that you expect, one a step, with --learning-rates, or train and look at "
          "the run's report");
  return daso::run_plan_of(run, flags.nodes * flags.ranks_per_node, flags.batches);
}

struct Resolved {
  ScheduleOptions options;
  RunPlan run_plan;
  LossOfEpoch loss;
  int nodes = 1;

  // Of the epoch's first step.
  double rate(int epoch) const { return run_plan.rate(epoch * run_plan.batches); }
};

// What a run with these flags would do, by the functions that such a run calls.
Resolved resolve(const ScheduleFlags& flags) {
  refuse_idle_flags(flags);
  Settings run = flags.run;
  run.epochs = epochs_of(flags);
  check_amounts(flags, run.epochs);
  validate(run);
  Resolved resolved{.run_plan = run_plan_of(flags, run), .nodes = flags.nodes};
  resolved.options = strategy_options(run, resolved.run_plan, flags.nodes).schedule;
  resolved.loss = [losses = flags.losses](int epoch) {
    return losses.empty() ? 0 : losses[static_cast<std::size_t>(epoch)];
  };
  return resolved;
}

struct Total {
  std::int64_t exchanges = 0;
  std::int64_t agreements = 0;
};

Total total_of(const std::vector<EpochTrajectory>& epochs) {
  Total total;
  for (const EpochTrajectory& epoch : epochs) {
    total.exchanges += epoch.exchanges;
    total.agreements += epoch.agreements;
  }
  return total;
}

std::vector<std::string> warnings_of(const Resolved& resolved) {
  return warnings_for({.nodes = resolved.nodes,
                       .schedule = resolved.options.kind,
                       .cadence = resolved.options.cadence});
}

// The shortest and the longest skip of an epoch: that of each start, since the rule `rate` chooses
// it anew; the plan's where there is none.
std::pair<std::int64_t, std::int64_t> skips_of(const EpochTrajectory& epoch) {
  if (epoch.starts.empty()) return {epoch.plan.cadence.skip, epoch.plan.cadence.skip};
  const auto [least, most] =
      std::minmax_element(epoch.starts.begin(), epoch.starts.end(),
                          [](const auto& one, const auto& other) { return one.skip < other.skip; });
  return {least->skip, most->skip};
}

ordered_json json_of(const EpochTrajectory& epoch, double rate) {
  ordered_json starts = ordered_json::array();
  for (const auto& [step, skip] : epoch.starts) starts.push_back({step, skip});
  const auto [skip, longest_skip] = skips_of(epoch);
  return {{"phase", name_of(epoch.plan.phase)},
          {"learning_rate", rate},
          {"skip", skip},
          {"longest_skip", longest_skip},
          {"wait", epoch.plan.cadence.wait},
          {"exchanges", epoch.exchanges},
          {"starts", std::move(starts)}};
}

void print_json(const Resolved& resolved, const std::vector<EpochTrajectory>& epochs) {
  const ScheduleOptions& options = resolved.options;
  const Total total = total_of(epochs);
  ordered_json report = {{"command", "schedule"},
                         {"schedule", name_of(options.kind)},
                         {"skip", options.cadence.skip},
                         {"wait", options.cadence.wait}};
  if (options.kind == ScheduleKind::kRate) report["alpha"] = options.alpha;
  if (options.kind == ScheduleKind::kPlateau) {
    report["patience"] = options.stall.patience;
    report["threshold"] = options.stall.threshold;
  }
  report["nodes"] = resolved.nodes;
  report["epochs"] = options.phases.epochs;
  report["batches"] = resolved.run_plan.batches;
  report["warmup_epochs"] = options.phases.warmup;
  report["cooldown_epochs"] = options.phases.cooldown;
  report["exchanges"] = total.exchanges;
  report["agreements"] = total.agreements;
  report["trajectory"] = ordered_json::array();
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    report["trajectory"].push_back(json_of(epochs[i], resolved.rate(static_cast<int>(i))));
  }
  report["warnings"] = warnings_of(resolved);
  fmt::print("{}\n", report.dump(2));
}

// "100:4 x25, 200:6": from step 100 on a start every 4 steps, 25 times; at step 200 one with 6.
std::string rounds_of(const std::vector<EpochTrajectory::Start>& starts) {
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < starts.size();) {
    std::size_t next = first;
    while (next < starts.size() && starts[next].skip == starts[first].skip) ++next;
    const std::string times = next - first > 1 ? fmt::format(" x{}", next - first) : "";
    parts.push_back(fmt::format("{}:{}{}", starts[first].step, starts[first].skip, times));
    first = next;
  }
  return join(parts, ", ");
}

void print_table(const Resolved& resolved, const std::vector<EpochTrajectory>& epochs) {
  const ScheduleOptions& options = resolved.options;
  const bool plateau = options.kind == ScheduleKind::kPlateau;
  fmt::print(
      "schedule {}, skip {}, wait {}{}; {} nodes, {} epochs of {} steps, warm-up {}, cool-down "
      "{}\n\n",
      name_of(options.kind), options.cadence.skip, options.cadence.wait,
      options.kind == ScheduleKind::kRate ? fmt::format(", alpha {}", options.alpha) : "",
      resolved.nodes, options.phases.epochs, resolved.run_plan.batches, options.phases.warmup,
      options.phases.cooldown);
  const Table table({{"epoch", 5},
                     {"phase", 8, /*left=*/true},
                     {"skip", 6},
                     {"wait", 4},
                     {plateau ? "loss" : "rate", 9},
                     {"exchanges", 9},
                     {"starts (step:skip)", 20, /*left=*/true}});
  fmt::print("{}\n", table.header());
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    const auto& [phase, cadence] = epochs[i].plan;
    const auto cell = [&, blocking = is_blocking(phase)](const std::string& value) {
      return blocking ? std::string("-") : value;
    };
    const auto [skip, longest_skip] = skips_of(epochs[i]);
    const std::string skips =
        skip == longest_skip ? std::to_string(skip) : fmt::format("{}-{}", skip, longest_skip);
    const auto number = static_cast<int>(i);
    const double seen = plateau ? resolved.loss(number) : resolved.rate(number);
    fmt::print("{}\n",
               table.row({std::to_string(i), name_of(phase), cell(skips),
                          cell(std::to_string(cadence.wait)),
                          fmt::format("{:.4g}", seen), std::to_string(epochs[i].exchanges),
                          rounds_of(epochs[i].starts)}));
  }
  const Total total = total_of(epochs);
  fmt::print("\n{} exchanges in {} steps, {} of them agreements\n", total.exchanges,
             options.phases.epochs * resolved.run_plan.batches, total.agreements);
  for (const std::string& warning : warnings_of(resolved)) {
    fmt::print(stderr, "daso: warning: {}\n", warning);
  }
}

int act(const ScheduleFlags& flags) {
  const Resolved resolved = resolve(flags);
  const std::vector<EpochTrajectory> epochs =
      trajectory_of(Schedule(resolved.options), Cycle({.nodes = resolved.nodes}), resolved.run_plan,
                    resolved.loss);
  flags.json ? print_json(resolved, epochs) : print_table(resolved, epochs);
  return kExitOk;
}

void add_flags(CLI::App& app, ScheduleFlags& flags) {
  Flags add(app);
  add_settings(app, flags.run,
               {"preset", "schedule", "skip", "wait", "alpha", "patience", "threshold",
                "warmup-epochs", "cooldown-epochs"});
  flags.epochs = add_setting(app, flags.run, setting("epochs"));
  add.count("--batches", "Steps of an epoch", flags.batches, 1)
      ->default_str(std::to_string(flags.batches));
  add.count("--nodes", "Nodes", flags.nodes, 1)->default_str(std::to_string(flags.nodes));
  add.parsed("--losses", "Of --schedule plateau: training loss of every epoch", flags.losses,
             parse_numbers)
      ->type_name("LIST|FILE");
  add.parsed("--learning-rates", "Learning rate of every step", flags.rates, parse_numbers)
      ->type_name("LIST|FILE");
  flags.rate_flags = add_settings(app, flags.run, SettingPart::kRate);
  flags.batch_flags = add_settings(app, flags.run, SettingPart::kBatch);
  flags.batch_flags.push_back(
      add.count("--ranks-per-node", "Ranks of every node", flags.ranks_per_node, 1)
          ->default_str(std::to_string(flags.ranks_per_node)));
}

}  // namespace

Command add_schedule(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("schedule", "When a run would exchange, without running it");
  const auto flags = std::make_shared<ScheduleFlags>();  // kept alive by what is returned
  add_flags(*app, *flags);
  app->add_flag("--json", flags->json, "Print one JSON object");
  app->footer("docs/schedules.md explains phases and schedules.");
  return {app, [flags](const Invocation&) { return act(*flags); }};
}

}  // namespace daso::cli
