// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/run_status.h"
#include "daso/base/seconds.h"
#include "daso/record/tensorboard.h"
#include "daso/run/trainer.h"

namespace daso::cli {

// What rank 0 shows and records while a run goes on: a bar on a terminal, a line per epoch
// elsewhere; metrics.jsonl, TensorBoard's file and status.json.
class TrainReport {
 public:
  // All is borrowed. Records of steps that the trainer is still to do are of a run that was stopped
  // later than its checkpoint; they are dropped.
  TrainReport(const World& world, const Settings& options, const Trainer& trainer, bool quiet);

  void operator()(const Progress& now);
  // The last word: summary.json and what else has an end.
  void end(const Summary& summary);

 private:
  void record(const Progress& now);
  void record_histograms(std::int64_t step);
  void show_epoch(const Progress& now) const;
  void show_bar(const Progress& now);
  double seconds_left(const Progress& now) const;
  std::string late_in(const Progress& now) const;

  const World& world_;
  const Settings& options_;
  const Trainer& trainer_;
  const RunPlace place_;  // where this process began
  std::ofstream metrics_;
  TensorBoardFile board_;
  RunStatus status_;
  bool warned_ = false;  // that TensorBoard's file cannot be written
  const bool quiet_;
  const std::optional<int> columns_;  // of a terminal; none: there is none
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

}  // namespace daso::cli
