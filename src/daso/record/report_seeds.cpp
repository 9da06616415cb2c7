// SPDX-License-Identifier: Apache-2.0
#include "daso/record/report_seeds.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/record/metrics.h"

namespace daso {
namespace {

using nlohmann::json;

bool all_numbers(const std::vector<json>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](const json& value) { return value.is_number(); });
}

bool all_equal(const std::vector<json>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](const json& value) { return value == values.front(); });
}

// Of every one that has it.
std::vector<json> field_of(const std::vector<json>& objects, const std::string& key) {
  std::vector<json> found;
  for (const json& object : objects) {
    if (object.is_object() && object.contains(key)) found.push_back(object[key]);
  }
  return found;
}

double deviation_of(const std::vector<json>& numbers) {
  const double mean = mean_of(numbers).get<double>();
  double squares = 0;
  for (const json& number : numbers) squares += std::pow(number.get<double>() - mean, 2);
  return std::sqrt(squares / static_cast<double>(numbers.size() - 1));
}

// What runs must have in common to be one; none of a run that stands alone, as it does not tell its
// seed.
std::optional<std::string> group_of(const ReportedRun& run) {
  if (!run.label.empty()) return "label " + run.label;
  if (value_in(run, "seed") == nullptr) return std::nullopt;
  std::string group = "configuration";
  for (const auto& [key, value] : run.configuration) {
    if (key != "seed") group += fmt::format("\n{}={}", key, value);
  }
  return group;
}

bool has_seed_of(const ReportedRun& run, const std::vector<ReportedRun>& others) {
  return std::any_of(others.begin(), others.end(), [&](const ReportedRun& other) {
    return *value_in(other, "seed") == *value_in(run, "seed");
  });
}

json figures_of(const std::vector<ReportedRun>& runs) {
  std::vector<json> all;
  for (const ReportedRun& run : runs) all.push_back(run.figures);
  json figures = mean_of(all);
  for (const auto& [key, first] : all.front().items()) {
    const std::vector<json> values = field_of(all, key);
    if (values.size() == all.size() && all_numbers(values) && !all_equal(values)) {
      figures[key + kDeviation] = deviation_of(values);
    }
  }
  return figures;
}

// Those of steps that all have a record of.
std::vector<json> records_of(const std::vector<ReportedRun>& runs) {
  std::map<double, std::vector<json>> by_step;
  for (const ReportedRun& run : runs) {
    for (const json& record : run.records) {
      by_step[*number_in(record, metric("step"))].push_back(record);
    }
  }
  std::vector<json> records;
  for (const auto& [step, all] : by_step) {
    if (all.size() != runs.size()) continue;
    json record = mean_of(all);
    for (const char* name :
         {metric("train_loss"), metric("test_loss"), metric("test_accuracy"), metric("distance")}) {
      const std::vector<json> values = field_of(all, name);
      if (values.size() != all.size() || !all_numbers(values)) continue;
      record[std::string(name) + kLow] = *std::min_element(values.begin(), values.end());
      record[std::string(name) + kHigh] = *std::max_element(values.begin(), values.end());
    }
    // Who was late is one seed's: a mean of ranks is none.
    for (const char* name : {metric("late_rank"), metric("late_step"), metric("late_seconds")}) {
      record.erase(name);
      if (all.front().contains(name)) record[name] = all.front()[name];
    }
    records.push_back(std::move(record));
  }
  return records;
}

// A value of a flag that differs, as the seed does, is a list.
std::vector<std::pair<std::string, std::string>> configuration_of(
    const std::vector<ReportedRun>& runs) {
  auto configuration = runs.front().configuration;
  for (auto& [key, value] : configuration) {
    std::vector<std::string> values;
    for (const ReportedRun& run : runs) {
      const std::string* own = value_in(run, key);
      if (own != nullptr && std::find(values.begin(), values.end(), *own) == values.end()) {
        values.push_back(*own);
      }
    }
    value = join(values, ", ");
  }
  return configuration;
}

ReportedRun as_one(const std::vector<ReportedRun>& runs) {
  if (runs.size() == 1) return runs.front();
  ReportedRun one{.folders = {},
                  .label = runs.front().label,
                  .finished = true,
                  .figures = figures_of(runs),
                  .records = records_of(runs),
                  .configuration = configuration_of(runs),
                  .model = runs.front().model,
                  .data = runs.front().data,
                  .last = std::nullopt};
  for (const ReportedRun& run : runs) {
    one.folders.push_back(run.folders.front());
    one.finished = one.finished && run.finished;
    if (run.last) one.last = std::max(one.last.value_or(0), *run.last);
  }
  return one;
}

}  // namespace

json mean_of(const std::vector<json>& values) {
  DASO_ASSERT(!values.empty());
  const json& first = values.front();
  if (all_equal(values)) return first;
  if (all_numbers(values)) {
    double sum = 0;
    for (const json& value : values) sum += value.get<double>();
    return sum / static_cast<double>(values.size());
  }
  // A number that was not finite is null.
  if (std::any_of(values.begin(), values.end(), [](const json& one) { return one.is_null(); })) {
    return nullptr;
  }
  json mean = first;
  if (first.is_object()) {
    for (const auto& [key, value] : first.items()) {
      const std::vector<json> fields = field_of(values, key);
      if (fields.size() == values.size()) {
        mean[key] = mean_of(fields);
      } else {
        mean.erase(key);
      }
    }
  }
  const bool lists = std::all_of(values.begin(), values.end(), [&](const json& value) {
    return value.is_array() && value.size() == first.size();
  });
  for (std::size_t i = 0; lists && i < first.size(); ++i) {
    std::vector<json> entries;
    for (const json& value : values) entries.push_back(value[i]);
    mean[i] = mean_of(entries);
  }
  return mean;
}

std::vector<ReportedRun> seeds_together(std::vector<ReportedRun> runs) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<ReportedRun>> groups;
  for (ReportedRun& run : runs) {
    std::string group = group_of(run).value_or(fmt::format("alone {}", order.size()));
    // Two runs of one seed are no two seeds: somebody compares them.
    if (run.label.empty() && has_seed_of(run, groups[group])) {
      group = fmt::format("alone {}", order.size());
    }
    if (groups[group].empty()) order.push_back(group);
    groups[group].push_back(std::move(run));
  }
  std::vector<ReportedRun> together;
  together.reserve(order.size());
  for (const std::string& group : order) together.push_back(as_one(groups[group]));
  return together;
}

}  // namespace daso
