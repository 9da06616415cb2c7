// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "daso/comm/world.h"
#include "daso/record/line_file.h"
#include "daso/record/membership.h"
#include "daso/record/progress.h"
#include "daso/record/summary.h"
#include "daso/record/tensorboard.h"
#include "daso/tensor/flat_model.h"

namespace daso {

// What a run's files say of it that no Progress knows.
struct RunFacts {
  std::filesystem::path folder;  // is there already
  std::string strategy;
  std::string model;
  std::string data;
  int epochs = 1;
  int first_epoch = 0;          // where this process began, as is the next: what a run before has
  std::int64_t first_step = 0;  // recorded of later steps is dropped
  // Where nodes come and go: the view, behind those before it that others know of, and whether the
  // job begins with it.
  std::vector<ViewRecord> views = {};
  std::vector<DecidedView> decided = {};
  Membership::Job job = Membership::Job::kBegins;
};

// The files that rank 0 keeps of a run: metrics.jsonl and TensorBoard's file get a record every 10
// steps and at each epoch's end, status.json (for `daso top`) is written anew about once a second,
// summary.json and report.html come last. Once the run has begun, a file that cannot be written (a
// full disk) is worth one warning and never ends it; what comes later is written again as soon as
// there is room. A run whose nodes come and go also has membership.jsonl.
class RunFiles {
 public:
  // The world is borrowed. Throws ConfigError if the folder cannot be written.
  RunFiles(const World& world, RunFacts facts);

  // After every step; writes what is due.
  void add(const Progress& now);
  // Whether add() would write anything: whoever must work for a Progress need not otherwise.
  bool due(const StepInfo& info) const;
  // How the parameters are spread, for TensorBoard.
  void add_histograms(const FlatModel& model, std::int64_t step);
  // The last word; adds the views to the summary.
  void end(Summary& summary);
  // What became of exchanges, where there are views; add() does so with those of a Progress.
  void add_outcomes(const StrategyEvents& events);
  // The run has stopped before its end, with this step to go on with; likewise.
  void add_stop(int epoch, std::int64_t batch);
  // None: a world for good.
  const std::optional<Membership>& membership() const { return membership_; }

  // As this process has gone so far.
  double seconds_left(const Progress& now) const;

 private:
  void open_metrics();
  void put_record(Progress now);
  double recent_loss(const Progress& now);
  void put_status(const char* state) const;
  void warn(const std::string& what);

  const World& world_;
  const RunFacts facts_;
  const Clock::time_point begin_ = Clock::now();
  std::optional<LineFile> metrics_;
  std::optional<Membership> membership_;
  std::optional<TensorBoardFile> board_;
  Progress now_;
  RunningMean recorded_;            // this rank's losses of the epoch, up to the last record
  int recorded_epoch_ = 0;          // of that
  std::optional<double> accuracy_;  // of the last evaluation
  double seconds_left_ = 0;
  std::optional<Clock::time_point> status_written_;
  bool warned_ = false;
};

}  // namespace daso
