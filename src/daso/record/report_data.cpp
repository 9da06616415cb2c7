// SPDX-License-Identifier: Apache-2.0
#include "daso/record/report_data.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "daso/base/checked_json.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/base/toml.h"
#include "daso/record/metrics.h"

namespace daso {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A kill may have cut the last line, and a running job may be writing it now.
std::vector<json> read_records(const fs::path& file) {
  std::vector<json> records;
  if (!is_there(file)) return records;
  for (const std::string& line : split(read_file(file), '\n')) {
    std::optional<json> record = json_in(line);
    if (record && number_in(*record, metric("step"))) records.push_back(*std::move(record));
  }
  return records;
}

json read_summary(const fs::path& file) {
  std::optional<json> summary = json_in(read_file(file));
  require(summary && summary->is_object(),
          "{} is no JSON object: without that file the report shows what metrics.jsonl has",
          file.string());
  return *std::move(summary);
}

// None where there is no file.
std::vector<std::pair<std::string, std::string>> read_configuration(const fs::path& file) {
  std::vector<std::pair<std::string, std::string>> configuration;
  if (!is_there(file)) return configuration;
  for (const TomlEntry& entry : read_toml(file)) {
    configuration.emplace_back(entry.key, join(entry.values, ","));
  }
  return configuration;
}

// An interrupted run leaves a summary, and then goes on: its records are ahead of that.
bool is_of_all_records(const json& summary, const std::vector<json>& records) {
  const auto steps = number_in(summary, "steps");
  return records.empty() || !steps || *number_in(records.back(), metric("step")) < *steps;
}

// Files may hold any number; those below are added and multiplied.
std::int64_t count_of(double number) {
  constexpr double kMost = 1e9;
  return static_cast<std::int64_t>(std::clamp(number, 0.0, kMost));
}

// How many ranks "2,2" or "2" of `nodes` nodes are.
std::int64_t ranks_of(const std::string& ranks_per_node, std::int64_t nodes) {
  std::int64_t sum = 0;
  const std::vector<std::string> parts = split(ranks_per_node, ',');
  for (const std::string& part : parts) {
    sum += count_of(static_cast<double>(parse_integer(part).value_or(0)));
  }
  return parts.size() == 1 ? sum * nodes : sum;
}

// What is known of a run that has no summary yet, under the summary's names.
json figures_so_far(const ReportedRun& run) {
  json figures = json::object();
  for (const auto& [key, value] : run.configuration) {
    const auto nodes = number_in(figures, "nodes");
    if (key == "strategy") figures["strategy"] = value;
    if (key == "nodes" && parse_integer(value)) figures["nodes"] = *parse_integer(value);
    if (key == "ranks-per-node" && nodes) {
      figures["ranks"] = ranks_of(value, count_of(*nodes));
    }
  }
  for (const json& record : run.records) {
    for (const char* field :
         {metric("seconds"), metric("samples_per_second"), metric("wait_seconds"),
          metric("train_loss"), metric("bytes_between_nodes"), metric("test_loss"),
          metric("test_accuracy")}) {
      if (record.contains(field)) figures[field] = record[field];
    }
    figures["steps"] = count_of(*number_in(record, metric("step"))) + 1;
  }
  return figures;
}

ReportedRun read_run(const fs::path& folder) {
  const fs::path metrics = folder / "metrics.jsonl";
  const fs::path summary = folder / "summary.json";
  require(is_folder(folder), "there is no folder '{}': give a run's folder, as of --out",
          folder.string());
  require(is_there(metrics) || is_there(summary),
          "{} is no run: it has neither metrics.jsonl nor summary.json; give a run's folder, as of "
          "daso train --out",
          folder.string());
  ReportedRun run;
  run.folder = folder;
  run.records = read_records(metrics);
  run.configuration = read_configuration(folder / "config.toml");
  if (is_there(summary)) run.figures = read_summary(summary);
  run.finished = run.figures.is_object() && is_of_all_records(run.figures, run.records);
  if (!run.finished) run.figures = figures_so_far(run);
  return run;
}

std::string folder_name(const fs::path& folder) {
  std::error_code problem;
  fs::path whole = fs::weakly_canonical(folder, problem);
  if (problem) whole = folder;
  return whole.has_filename() ? whole.filename().string() : whole.string();
}

std::string strategy_of(const ReportedRun& run) {
  return run.figures.value("strategy", json()).is_string()
             ? run.figures["strategy"].get<std::string>()
             : folder_name(run.folder);
}

}  // namespace

std::optional<double> number_in(const json& object, const char* field) {
  if (!object.is_object()) return {};
  const auto found = object.find(field);
  if (found == object.end() || !found->is_number()) return {};
  const double number = found->get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

bool was_late(const json& record) {
  return number_in(record, metric("late_rank")) &&
         is_late(number_in(record, metric("late_seconds")).value_or(0));
}

std::vector<ReportedRun> read_runs(const std::vector<fs::path>& folders) {
  require(!folders.empty(), "a report needs at least one run");
  std::vector<ReportedRun> runs;
  std::set<std::string> strategies;
  std::set<std::string> names;
  for (const fs::path& folder : folders) {
    runs.push_back(read_run(folder));
    strategies.insert(strategy_of(runs.back()));
    names.insert(folder_name(folder));
  }
  // The shortest thing that tells them apart.
  for (ReportedRun& run : runs) {
    const bool by_strategy = runs.size() > 1 && strategies.size() == runs.size();
    run.label = by_strategy                   ? strategy_of(run)
                : names.size() == runs.size() ? folder_name(run.folder)
                                              : run.folder.string();
  }
  return runs;
}

}  // namespace daso
