// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daso/comm/world.h"
#include "daso/run/settings.h"

namespace daso::cli {

// One of the strategies that are compared.
struct Candidate {
  std::string label;  // as asked for: "daso:paper"
  std::string strategy;
  std::string preset;
};
// "sync,daso,daso:paper". Throws ConfigError naming the flag.
std::vector<Candidate> parse_candidates(const std::string& flag, const std::string& text);

struct CompareOptions {
  Settings job;  // what all have in common
  std::vector<Candidate> candidates;
  int seeds = 1;  // runs of each, with seeds from the job's on
  std::optional<double> target_accuracy;
};
// Throws ConfigError.
void validate(const CompareOptions& options);

struct Figure {
  double mean = 0;
  double deviation = 0;  // standard deviation over the seeds; 0 for one
};

// What came out for one strategy; docs/measuring.md defines each. Differences are to the first row.
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
  double train_loss_difference = 0;
  double test_accuracy_difference = 0;
  std::optional<double> seconds_to_target;  // none: not asked for, or a run did not reach it
  std::vector<std::filesystem::path> runs;  // their folders, by seed
};

// Trains with all candidates on one world. They take turns, epoch by epoch, so that all see the
// same state of the machine. All ranks call it together; the rows are rank 0's.
std::vector<CompareRow> compare_runs(World& world, const CompareOptions& options, bool quiet);

std::string table_text(const std::vector<CompareRow>& rows, const CompareOptions& options);
std::string json_text(const std::vector<CompareRow>& rows);

}  // namespace daso::cli
