// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daso/comm/world.h"
#include "daso/data/evaluation_loader.h"
#include "daso/data/loader.h"
#include "daso/record/progress.h"
#include "daso/record/summary.h"
#include "daso/run/course.h"
#include "daso/run/device_feed.h"
#include "daso/run/run.h"
#include "daso/run/train_step.h"

namespace daso {

// A run that is trained by the ranks of one world, each with a session of its own: the course of
// the run (course.h), the batches for its steps, and what computes with them; top to bottom in
// session.cpp. World and run are borrowed and outlive it. All ranks call its functions together.
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
  // It is, before the run: another view has begun, or examples are to be dealt anew.
  bool view_over() const { return course_.view_over(); }

  const Course& course() const { return course_; }
  const FlatModel& model() const { return run_.model(); }
  bool finished() const { return run_.finished(); }  // no step is left

 private:
  void train_batches(const OnProgress& on_progress);
  Batch next_batch(const StepInfo& info);
  void train_batch(const Batch& batch, const StepInfo& info);
  void draw_anew(const StepInfo& info, int part);
  Score score();

  World& world_;
  Run& run_;
  Loader loader_;
  DeviceFeed feed_;  // of the loader; between epochs of the test part
  Course course_;
  TrainStep compute_;  // of a batch: its loss and gradients
  EvaluationLoader test_part_;
  std::optional<TrainingDraws> draws_;  // while an epoch is trained, of a module of one's own
};

}  // namespace daso
