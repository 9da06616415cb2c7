// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daso/record/summary.h"

// What came out of a comparison: a row for each candidate, over its seeds. docs/comparing.md
// defines the figures.
namespace daso::cli {

// Of one run.
struct Outcome {
  Summary summary;
  std::optional<double> seconds_to_target;
};
// Of one candidate, by seed.
struct Outcomes {
  std::string label;
  std::vector<Outcome> runs;
};

struct Figure {
  double mean = 0;
  double deviation = 0;  // standard deviation over the seeds; 0 for one
};

// To the first row, seed by seed: seeds that are hard for all do not count.
struct Difference {
  double mean = 0;
  std::optional<double> margin;  // half of the 95 % confidence interval; none of one seed
};
// Of two candidates' values, by seed, each at least one.
Difference difference(const std::vector<double>& own, const std::vector<double>& first);

struct CompareRow {
  std::string label;
  Figure seconds;
  double evaluation_seconds = 0;
  // Of strategy `node`: the bound. With this row's evaluation in place of its own, since its nodes
  // have different models and evaluate each alone.
  double node_seconds = 0;
  double wait_seconds = 0;
  double bytes_between_nodes = 0;
  Figure train_loss;
  Figure test_loss;
  Figure test_accuracy;
  Difference seconds_difference;
  Difference train_loss_difference;
  Difference test_loss_difference;
  Difference test_accuracy_difference;
  std::optional<double> seconds_to_target;  // none: not asked for, or a run did not reach it
  std::vector<std::filesystem::path> runs;  // their folders, by seed
};

// Of the candidates, all with as many runs as the bound.
std::vector<CompareRow> rows_of(const std::vector<Outcomes>& candidates, const Outcomes& bound);

// For people; `target` with the column of the seconds to it.
std::string table_text(const std::vector<CompareRow>& rows, bool target);
std::string json_text(const std::vector<CompareRow>& rows);
// The same as JSON has, without the folders: a line of names and one for each row.
std::string csv_text(const std::vector<CompareRow>& rows);

}  // namespace daso::cli
