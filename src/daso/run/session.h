// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "daso/base/disk.h"
#include "daso/comm/world.h"
#include "daso/data/evaluation_loader.h"
#include "daso/data/loader.h"
#include "daso/record/progress.h"
#include "daso/record/summary.h"
#include "daso/run/checkpoint_writer.h"
#include "daso/run/control.h"
#include "daso/run/device_feed.h"
#include "daso/run/loss.h"
#include "daso/run/run.h"
#include "daso/run/session_record.h"
#include "daso/run/train_step.h"
#include "daso/strategy/strategy.h"

namespace daso {

struct Resumption;  // in resume.h

// The signal that asks this rank to save and stop, once there is one. Empty: there never is.
using InterruptedBy = std::function<std::optional<int>()>;

// A run that is trained by the ranks of one world, each with a session of its own: the loop from
// data to checkpoint, top to bottom in session.cpp, and all that is made from the world for it (the
// setup, in session_setup.cpp). World and run are borrowed and outlive it. All ranks call its
// functions together.
//
// It sets nothing of the process for good: LibTorch's number of threads is the settings' while an
// epoch is trained, and on a device its stream is one of the session's.
class Session {
 public:
  // Begins the run, or goes on with it: where a session before has left it, else, with
  // settings.resume, from a checkpoint. Throws ConfigError for what does not fit.
  Session(World& world, Run& run);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // Trains until the last step, or until a signal says stop. What rank 0 gets is the run's: times
  // and exit code are each rank's own, and with `none` and `node` losses are, too. `on_progress` is
  // called after every step on rank 0.
  Summary train(const OnProgress& on_progress, const InterruptedBy& interrupted);

  // The same in pieces, so that several runs can take turns on one world: one epoch, or what is
  // left of it; false when there is none left. Only its own turns count in a session's seconds.
  bool train_epoch(const OnProgress& on_progress, InterruptedBy interrupted);
  // Ends a turn: nothing of this run is on its way any more. Others use the same links.
  void settle();
  // The last checkpoint, and what came out.
  Summary finish();

  // Leaves the run to the next session, with all that it needs; this one is then over.
  void leave();

  const FlatModel& model() const { return run_.model(); }
  Settings settings() const;                         // with everything given that counts
  bool has_saved() const { return has_saved_; }      // it has begun to write a checkpoint
  bool finished() const { return run_.finished(); }  // no step is left
  std::optional<RunPlace> resumed() const { return resumed_; }   // where it went on; none: it began
  const std::string& begun_with() const { return begun_with_; }  // what --init gave, on rank 0

 private:
  // The setup.
  void share_batch_norm();
  void begin_with(const std::filesystem::path& file);
  void go_on(const Resumption& from);

  // The loop.
  void train_batches(const OnProgress& on_progress);
  StepInfo info_at(int epoch, std::int64_t batch) const;
  Batch next_batch(const StepInfo& info);
  at::Tensor train_batch(const Batch& batch, const StepInfo& info);
  void draw_anew(const StepInfo& info, int part);
  void update(const StepInfo& info);
  void end_epoch(int epoch, const OnProgress& on_progress);
  void agree_on_scale();
  void evaluate_epoch(int epoch);
  void keep_if_best();

  // Stopping.
  bool checkpoint_due(const StepInfo& info);
  Request own_request() const;
  RunState state();
  void checkpoint();

  World& world_;
  Run& run_;
  Loader loader_;
  DeviceFeed feed_;
  const LearningRateOptions rate_;
  const RunPlan plan_;
  const std::unique_ptr<Strategy> strategy_;
  TrainStep compute_;  // of a batch: its loss and gradients
  Communicator& team_;  // the ranks that train one model together: they are evaluated together
  EvaluationLoader test_part_;
  Control control_;
  CheckpointWriter checkpoints_;
  Disk best_disk_;  // of the best model
  SessionRecord record_;
  LossWatch loss_watch_;
  InterruptedBy interrupted_;
  std::optional<TrainingDraws> draws_;  // while an epoch is trained, of a module of one's own
  std::optional<RunPlace> resumed_;
  std::string begun_with_;  // empty: random numbers
  RunPlace saved_;          // that of the newest checkpoint; a run's beginning needs none
  bool has_saved_ = false;  // a checkpoint, or has begun to
  bool stopping_ = false;
  Clock::time_point last_checkpoint_ = Clock::now();
};

}  // namespace daso
