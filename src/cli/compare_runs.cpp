// SPDX-License-Identifier: Apache-2.0
#include "cli/compare_runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/run_folder.h"
#include "cli/table.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/run/session.h"
#include "daso/run/train_report.h"

namespace daso::cli {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr const char* kBound = "node";

// One run among those that take turns on the world, each with a session of its own.
struct Contender {
  Settings options;
  std::unique_ptr<Run> run;
  std::unique_ptr<Session> session;
  std::unique_ptr<TrainReport> report;  // rank 0's
  std::optional<double> seconds_to_target;
  Summary summary;
};

// What the strategy has no use for is left out, so that one set of flags serves all.
Settings options_of(const Candidate& candidate, const Settings& job) {
  Settings options = job;
  options.strategy = candidate.strategy;
  options.preset = candidate.preset;
  drop_idle_strategy_flags(options);
  return options;
}

std::string folder_of(const std::string& label, std::uint64_t seed) {
  std::string name = label;
  std::replace(name.begin(), name.end(), ':', '-');
  return fmt::format("{}-seed{}", name, seed);
}

// The candidates, and the bound if it is not one of them.
std::vector<Candidate> with_bound(std::vector<Candidate> candidates) {
  const bool there = std::any_of(candidates.begin(), candidates.end(),
                                 [](const Candidate& one) { return one.label == kBound; });
  if (!there) candidates.push_back({kBound, kBound, "default"});
  return candidates;
}

Contender begin(World& world, const Candidate& candidate, const CompareOptions& options, int seed) {
  Contender one{.options = options_of(candidate, options.job)};
  one.options.seed += static_cast<std::uint64_t>(seed);
  one.options.out /= folder_of(candidate.label, one.options.seed);
  make_folder("--out", one.options.out);
  one.run = std::make_unique<Run>(one.options);
  one.session = std::make_unique<Session>(world, *one.run);
  return one;
}

void advance(World& world, Contender& one, const CompareOptions& options) {
  // Nobody's turn begins before everybody's last one is over.
  world.everyone().barrier().wait(world.limit());
  one.session->train_epoch(
      [&](const Progress& now) {
        (*one.report)(now);
        const bool reached =
            now.test && options.target_accuracy && now.test->accuracy >= *options.target_accuracy;
        if (reached && !one.seconds_to_target) one.seconds_to_target = now.seconds;
      },
      [] { return std::nullopt; });
  one.session->settle();
}

std::vector<Contender> train_all(World& world, const CompareOptions& options, int seed,
                                 bool quiet) {
  const std::vector<Candidate> all = with_bound(options.candidates);
  std::vector<Contender> runs;
  runs.reserve(all.size());
  for (const Candidate& candidate : all) runs.push_back(begin(world, candidate, options, seed));
  if (world.rank() == 0) {
    // Only now: a report refers to its contender, which must not move any more.
    for (Contender& one : runs) {
      one.report = std::make_unique<TrainReport>(world, one.options, *one.session, /*quiet=*/true);
    }
  }
  for (int epoch = 0; epoch < options.job.epochs; ++epoch) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      // Another one first in each epoch.
      Contender& one = runs[(i + static_cast<std::size_t>(epoch)) % runs.size()];
      advance(world, one, options);
    }
    if (quiet || world.rank() != 0) continue;
    fmt::print("seed {} of {}: epoch {} of {} done by all {}\n", seed + 1, options.seeds, epoch + 1,
               options.job.epochs, runs.size());
    std::fflush(stdout);
  }
  for (Contender& one : runs) {
    one.summary = one.session->finish();
    if (one.report) one.report->end(one.summary);
    one.session.reset();
    one.run.reset();
  }
  return runs;
}

Figure figure_of(const std::vector<Contender>& runs, double Summary::*field) {
  double sum = 0;
  for (const Contender& run : runs) sum += run.summary.*field;
  const auto number = static_cast<double>(runs.size());
  const double mean = sum / number;
  double squares = 0;
  for (const Contender& run : runs) squares += std::pow(run.summary.*field - mean, 2);
  return {mean, runs.size() < 2 ? 0 : std::sqrt(squares / (number - 1))};
}

// Of a mean node.
double evaluation_seconds(const Summary& summary) {
  double sum = 0;
  for (const TimeSpent& node : summary.time_budget) sum += node.evaluation;
  return sum / static_cast<double>(summary.time_budget.size());
}

// Of one candidate's runs.
CompareRow row_of(const std::string& label, const std::vector<Contender>& runs) {
  CompareRow row{.label = label,
                 .seconds = figure_of(runs, &Summary::seconds),
                 .wait_seconds = figure_of(runs, &Summary::wait_seconds).mean,
                 .train_loss = figure_of(runs, &Summary::train_loss),
                 .test_loss = figure_of(runs, &Summary::test_loss),
                 .test_accuracy = figure_of(runs, &Summary::test_accuracy)};
  double to_target = 0;
  bool reached = true;
  for (const Contender& run : runs) {
    row.bytes_between_nodes +=
        static_cast<double>(run.summary.bytes_between_nodes) / static_cast<double>(runs.size());
    row.evaluation_seconds += evaluation_seconds(run.summary) / static_cast<double>(runs.size());
    row.runs.push_back(run.options.out);
    reached = reached && run.seconds_to_target;
    to_target += run.seconds_to_target.value_or(0) / static_cast<double>(runs.size());
  }
  if (reached) row.seconds_to_target = to_target;
  return row;
}

std::string plus_minus(const Figure& figure, int digits, bool several) {
  return several ? fmt::format("{:.{}f} ± {:.{}f}", figure.mean, digits, figure.deviation, digits)
                 : fmt::format("{:.{}f}", figure.mean, digits);
}

}  // namespace

std::vector<Candidate> parse_candidates(const std::string& flag, const std::string& text) {
  std::vector<Candidate> candidates;
  for (const std::string& label : split(text, ',')) {
    const std::size_t colon = label.find(':');
    Candidate one{.label = label, .strategy = label.substr(0, colon), .preset = "default"};
    if (colon != std::string::npos) one.preset = label.substr(colon + 1);
    const std::vector<std::string> names = strategy_names();
    if (std::find(names.begin(), names.end(), one.strategy) == names.end()) {
      throw ConfigError(fmt::format(
          "{}: there is no strategy '{}'; did you mean {}? There are {}", flag, one.strategy,
          nearest(one.strategy, names).value_or(names.front()), join(names, ", ")));
    }
    require(one.preset == "default" || one.preset == "paper",
            "{}: '{}': there is no preset '{}', only default and paper", flag, label, one.preset);
    require(one.preset == "default" || traits_of(one.strategy).merges_late,
            "{}: '{}': presets are daso's", flag, label);
    for (const Candidate& other : candidates) {
      require(other.label != label, "{} names '{}' twice", flag, label);
    }
    candidates.push_back(one);
  }
  require(!candidates.empty(), "{} names no strategy", flag);
  return candidates;
}

void validate(const CompareOptions& options) {
  require(
      !options.target_accuracy || (*options.target_accuracy > 0 && *options.target_accuracy <= 1),
      "--target-accuracy lies between 0 and 1, got {}", options.target_accuracy.value_or(0));
  for (const Candidate& one : options.candidates) validate(options_of(one, options.job));
  require(options.job.out.empty() || !is_there(options.job.out / "compare.json"),
          "--out {} holds a comparison already: give another folder", options.job.out.string());
}

std::vector<CompareRow> compare_runs(World& world, const CompareOptions& options, bool quiet) {
  const std::vector<Candidate> all = with_bound(options.candidates);
  std::vector<std::vector<Contender>> by_candidate(all.size());
  for (int seed = 0; seed < options.seeds; ++seed) {
    std::vector<Contender> runs = train_all(world, options, seed, quiet);
    for (std::size_t i = 0; i < all.size(); ++i) by_candidate[i].push_back(std::move(runs[i]));
  }
  double bound = 0;
  std::vector<CompareRow> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CompareRow row = row_of(all[i].label, by_candidate[i]);
    if (all[i].label == kBound) bound = row.seconds.mean - row.evaluation_seconds;
    if (i < options.candidates.size()) rows.push_back(row);
  }
  for (CompareRow& row : rows) {
    row.node_seconds = bound + row.evaluation_seconds;
    row.train_loss_difference = row.train_loss.mean - rows.front().train_loss.mean;
    row.test_accuracy_difference = row.test_accuracy.mean - rows.front().test_accuracy.mean;
  }
  return rows;
}

std::string table_text(const std::vector<CompareRow>& rows, const CompareOptions& options) {
  const bool several = options.seeds > 1;
  std::vector<Column> columns = {{"strategy", 12, true},
                                 {"seconds", several ? 16 : 8},
                                 {"x node", 7},
                                 {"waiting s", 9},
                                 {"MB between nodes", 16},
                                 {"train loss", several ? 17 : 10},
                                 {"accuracy", several ? 17 : 8},
                                 {"difference", 10}};
  if (options.target_accuracy) columns.push_back({"s to target", 11});
  const Table table(columns);
  std::string text = table.header() + "\n";
  for (const CompareRow& row : rows) {
    std::vector<std::string> cells = {row.label,
                                      plus_minus(row.seconds, 2, several),
                                      fmt::format("{:.3f}", row.seconds.mean / row.node_seconds),
                                      fmt::format("{:.2f}", row.wait_seconds),
                                      fmt::format("{:.2f}", row.bytes_between_nodes / 1e6),
                                      plus_minus(row.train_loss, 4, several),
                                      plus_minus(row.test_accuracy, 4, several),
                                      fmt::format("{:+.4f}", row.test_accuracy_difference)};
    if (options.target_accuracy) {
      cells.push_back(row.seconds_to_target ? fmt::format("{:.2f}", *row.seconds_to_target)
                                            : "not reached");
    }
    text += table.row(cells) + "\n";
  }
  return text;
}

std::string json_text(const std::vector<CompareRow>& rows) {
  json list = json::array();
  for (const CompareRow& row : rows) {
    json one = {{"strategy", row.label},
                {"seconds", row.seconds.mean},
                {"seconds_deviation", row.seconds.deviation},
                {"node_seconds", row.node_seconds},
                {"wait_seconds", row.wait_seconds},
                {"bytes_between_nodes", row.bytes_between_nodes},
                {"train_loss", row.train_loss.mean},
                {"train_loss_deviation", row.train_loss.deviation},
                {"train_loss_difference", row.train_loss_difference},
                {"test_loss", row.test_loss.mean},
                {"test_loss_deviation", row.test_loss.deviation},
                {"test_accuracy", row.test_accuracy.mean},
                {"test_accuracy_deviation", row.test_accuracy.deviation},
                {"test_accuracy_difference", row.test_accuracy_difference},
                {"seconds_to_target", nullptr},
                {"runs", json::array()}};
    if (row.seconds_to_target) one["seconds_to_target"] = *row.seconds_to_target;
    for (const fs::path& run : row.runs) one["runs"].push_back(run.string());
    list.push_back(std::move(one));
  }
  return json{{"rows", list}}.dump(2) + "\n";
}

}  // namespace daso::cli
