// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/base/seconds.h"
#include "daso/record/run_files.h"
#include "daso/run/course.h"

namespace daso {

// What a person sees of a run on rank 0: a bar on a terminal, a line per epoch elsewhere. The run's
// files are kept on the way.
class TrainReport {
 public:
  // All is borrowed.
  TrainReport(const World& world, const Course& course, bool quiet);

  void operator()(const Progress& now);
  void end(Summary& summary) { files_.end(summary); }
  // Where nodes come and go: a line for people, if the view has begun with this session,
  void show_view(const RunPlace& place) const;
  // and what became of exchanges since the last step that was told.
  void add_outcomes(const StrategyEvents& events) { files_.add_outcomes(events); }
  void add_stop(const RunPlace& place) { files_.add_stop(place.epoch, place.batch); }

 private:
  void show_epoch(const Progress& now) const;
  void show_bar(const Progress& now, int columns);

  const FlatModel& model_;
  RunFiles files_;
  const bool histograms_;
  const bool quiet_;
  const bool on_terminal_;
  Clock::time_point last_ = Clock::now();
};

}  // namespace daso
