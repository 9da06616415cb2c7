// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daso/record/lateness.h"
#include "daso/record/membership.h"
#include "daso/record/time_budget.h"

namespace daso {

struct RankLateness {
  int rank = 0;
  int node = 0;
  Lateness lateness;
};

// What came out of a run; docs/measuring.md defines each.
struct Summary {
  std::string strategy;
  int nodes = 1;
  int ranks = 1;
  int epochs = 0;
  std::int64_t steps = 0;
  double seconds = 0;
  double samples_per_second = 0;
  double wait_seconds = 0;
  std::int64_t exchanges = 0;
  double staleness_mean = 0;
  std::int64_t bytes_between_nodes = 0;
  std::int64_t skipped_steps = 0;
  double train_loss = 0;
  bool evaluated = true;  // on a test part, after the last epoch; else there are none of:
  double test_loss = 0;
  double test_accuracy = 0;
  std::optional<double> top5;                   // of images of more than 5 classes
  std::optional<double> perplexity;             // of a text
  std::optional<std::int64_t> bad_images;       // where they are skipped
  std::vector<TimeSpent> time_budget;           // of each node
  std::vector<RankLateness> late;               // of each rank
  std::vector<ViewRecord> views;                // where nodes come and go
  std::optional<std::int64_t> unseen_examples;  // there
  bool finished = false;                        // no epoch is left
  int exit = 0;
  std::string out;
};

// As JSON, pretty.
std::string text_of(const Summary& summary);

}  // namespace daso
