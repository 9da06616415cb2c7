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
#include "daso/record/progress.h"
#include "daso/record/report_seeds.h"

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

// What records tell of the device, where the run had one: the most memory, and the mean of its
// load.
void add_device(ReportedRun& run) {
  std::optional<double> most;
  RunningMean load;
  for (const json& record : run.records) {
    const auto memory = number_in(record, metric("device_memory"));
    if (memory) most = std::max(most.value_or(0), *memory);
    if (const auto share = number_in(record, metric("device_share"))) load.add(*share);
  }
  if (most) run.figures[metric("device_memory")] = *most;
  if (load.number > 0) run.figures[metric("device_share")] = load.value();
}

// A run that was resumed counts its seconds from zero again: its parts are laid end to end.
void lay_times_end_to_end(std::vector<json>& records) {
  double before = 0;
  double last = 0;
  for (json& record : records) {
    const auto seconds = number_in(record, metric("seconds"));
    if (!seconds) continue;
    if (before + *seconds < last) before = last;
    last = before + *seconds;
    record[metric("seconds")] = last;
  }
}

// The mean of an epoch so far begins anew with every epoch, and its curve has stairs. A window of a
// hundredth of the run, or of a record where that is more, has none. Older runs have no window.
void use_windows(std::vector<json>& records) {
  constexpr std::size_t kWindows = 100;
  const std::size_t width = std::max<std::size_t>(1, records.size() / kWindows);
  std::vector<double> sums{0};   // of losses up to each record,
  std::vector<double> steps{0};  // of the steps that they are the means of,
  std::vector<int> gaps{0};      // and of those that were not finite
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!records[i].contains(metric("recent_loss"))) return;
    const double before = i == 0 ? -1 : *number_in(records[i - 1], metric("step"));
    const double own = std::max(1.0, *number_in(records[i], metric("step")) - before);
    const auto loss = number_in(records[i], metric("recent_loss"));
    sums.push_back(sums.back() + loss.value_or(0) * own);
    steps.push_back(steps.back() + own);
    gaps.push_back(gaps.back() + (loss ? 0 : 1));
  }
  for (std::size_t end = 1; end <= records.size(); ++end) {
    const std::size_t begin = end > width ? end - width : 0;
    const double mean = (sums[end] - sums[begin]) / (steps[end] - steps[begin]);
    records[end - 1][metric("train_loss")] = gaps[end] == gaps[begin] ? json(mean) : json();
  }
}

// What status.json and the configuration say of what was trained, and when.
void add_subject(ReportedRun& run, const fs::path& folder) {
  std::optional<json> status;
  if (is_there(folder / "status.json")) status = json_in(read_file(folder / "status.json"));
  const auto text = [&](const char* key) -> std::string {
    if (const std::string* value = value_in(run, key)) return *value;
    const bool told = status && status->is_object() && status->value(key, json()).is_string();
    return told ? (*status)[key].get<std::string>() : "";
  };
  run.model = text("model");
  run.data = text("data");
  if (status) run.last = number_in(*status, "updated");
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
  run.folders = {folder};
  run.records = read_records(metrics);
  run.configuration = read_configuration(folder / "config.toml");
  if (is_there(summary)) run.figures = read_summary(summary);
  run.finished = run.figures.is_object() && is_of_all_records(run.figures, run.records);
  if (!run.finished) run.figures = figures_so_far(run);
  add_device(run);
  lay_times_end_to_end(run.records);
  use_windows(run.records);
  add_subject(run, folder);
  run.views = read_views(folder / "membership.jsonl");
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
             : folder_name(run.folders.front());
}

// The shortest thing that tells them apart.
void label(std::vector<ReportedRun>& runs) {
  std::set<std::string> strategies;
  std::set<std::string> names;
  for (const ReportedRun& run : runs) {
    strategies.insert(strategy_of(run));
    names.insert(folder_name(run.folders.front()));
  }
  for (ReportedRun& run : runs) {
    if (!run.label.empty()) continue;
    const fs::path& folder = run.folders.front();
    const bool several = runs.size() > 1 || run.folders.size() > 1;
    run.label = several && strategies.size() == runs.size() ? strategy_of(run)
                : names.size() == runs.size()               ? folder_name(folder)
                                                            : folder.string();
  }
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

const std::string* value_in(const ReportedRun& run, const std::string& key) {
  const auto found = std::find_if(run.configuration.begin(), run.configuration.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  return found == run.configuration.end() ? nullptr : &found->second;
}

std::vector<ReportedRun> read_runs(const std::vector<LabelledRun>& runs) {
  require(!runs.empty(), "a report needs at least one run");
  std::vector<ReportedRun> all;
  for (const LabelledRun& one : runs) {
    all.push_back(read_run(one.folder));
    all.back().label = one.label;
  }
  all = seeds_together(std::move(all));
  label(all);
  return all;
}

}  // namespace daso
