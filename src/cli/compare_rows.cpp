// SPDX-License-Identifier: Apache-2.0
#include "cli/compare_rows.h"

#include <cmath>

#include "bench/statistics.h"
#include "daso/base/error.h"

namespace daso::cli {
namespace {

constexpr double kTwoSided95 = 0.975;

std::vector<double> values_of(const std::vector<Outcome>& runs, double Summary::*field) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const Outcome& run : runs) values.push_back(run.summary.*field);
  return values;
}

Figure figure_of(const std::vector<double>& values) {
  const auto number = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / number;
  double squares = 0;
  for (const double value : values) squares += std::pow(value - mean, 2);
  return {mean, values.size() < 2 ? 0 : std::sqrt(squares / (number - 1))};
}

Figure figure_of(const std::vector<Outcome>& runs, double Summary::*field) {
  return figure_of(values_of(runs, field));
}

// Of a mean node.
double evaluation_seconds(const Summary& summary) {
  double sum = 0;
  for (const TimeSpent& node : summary.time_budget) sum += node.evaluation;
  return sum / static_cast<double>(summary.time_budget.size());
}

// Of one candidate, by itself.
CompareRow row_of(const Outcomes& candidate) {
  const std::vector<Outcome>& runs = candidate.runs;
  CompareRow row{.label = candidate.label,
                 .seconds = figure_of(runs, &Summary::seconds),
                 .wait_seconds = figure_of(runs, &Summary::wait_seconds).mean,
                 .train_loss = figure_of(runs, &Summary::train_loss),
                 .test_loss = figure_of(runs, &Summary::test_loss),
                 .test_accuracy = figure_of(runs, &Summary::test_accuracy)};
  const auto number = static_cast<double>(runs.size());
  double to_target = 0;
  bool reached = true;
  for (const Outcome& run : runs) {
    row.bytes_between_nodes += static_cast<double>(run.summary.bytes_between_nodes) / number;
    row.evaluation_seconds += evaluation_seconds(run.summary) / number;
    row.runs.emplace_back(run.summary.out);
    reached = reached && run.seconds_to_target;
    to_target += run.seconds_to_target.value_or(0) / number;
  }
  if (reached) row.seconds_to_target = to_target;
  return row;
}

}  // namespace

Difference difference(const std::vector<double>& own, const std::vector<double>& first) {
  DASO_ASSERT(own.size() == first.size() && !own.empty());
  std::vector<double> differences;
  for (std::size_t i = 0; i < own.size(); ++i) differences.push_back(own[i] - first[i]);
  const Figure figure = figure_of(differences);
  if (own.size() < 2) return {figure.mean, std::nullopt};
  const auto seeds = static_cast<int>(own.size());
  return {figure.mean,
          bench::student_t(kTwoSided95, seeds - 1) * figure.deviation / std::sqrt(seeds)};
}

std::vector<CompareRow> rows_of(const std::vector<Outcomes>& candidates, const Outcomes& bound) {
  const CompareRow least = row_of(bound);
  std::vector<CompareRow> rows;
  for (const Outcomes& candidate : candidates) {
    CompareRow row = row_of(candidate);
    row.node_seconds = least.seconds.mean - least.evaluation_seconds + row.evaluation_seconds;
    if (!rows.empty()) {
      const auto to_first = [&](double Summary::*field) {
        return difference(values_of(candidate.runs, field),
                          values_of(candidates.front().runs, field));
      };
      row.seconds_difference = to_first(&Summary::seconds);
      row.train_loss_difference = to_first(&Summary::train_loss);
      row.test_loss_difference = to_first(&Summary::test_loss);
      row.test_accuracy_difference = to_first(&Summary::test_accuracy);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace daso::cli
