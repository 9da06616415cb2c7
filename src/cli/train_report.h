// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "daso/base/seconds.h"
#include "daso/train/trainer.h"

namespace daso {

// What rank 0 shows and records while a run goes on: a bar on a terminal, a line per epoch
// elsewhere, and metrics.jsonl.
class TrainReport {
 public:
  // Records of steps from `place` on are of a run that was stopped later than its checkpoint; they
  // are done again and so are dropped.
  TrainReport(const std::filesystem::path& out, const RunPlace& place, const Topology& topology,
              bool quiet);

  void operator()(const Progress& now);

 private:
  void show_bar(const Progress& now);
  double seconds_left(const Progress& now) const;
  std::string late_in(const Progress& now) const;

  const RunPlace place_;
  const Topology& topology_;
  std::ofstream metrics_;
  const bool quiet_;
  const bool terminal_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

}  // namespace daso
