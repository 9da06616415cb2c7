// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daso/base/disk.h"
#include "daso/base/timeline.h"
#include "daso/comm/world.h"
#include "daso/record/progress.h"
#include "daso/record/summary.h"
#include "daso/run/checkpoint_writer.h"
#include "daso/run/control.h"
#include "daso/run/loss.h"
#include "daso/run/run.h"
#include "daso/run/session_record.h"
#include "daso/run/views/takeover.h"
#include "daso/strategy/strategy.h"
#include "daso/tensor/device_span.h"
#include "daso/tensor/lane.h"

namespace daso {

struct Resumption;  // in resume.h

// The signal that asks this rank to save and stop, once there is one. Empty: there never is.
using InterruptedBy = std::function<std::optional<int>()>;

// The way of a run through its steps on the ranks of one world: all of a training loop but the
// batches and what computes with them. A Session has these as well; a loop that is not ours, such
// as one in Python, brings its own:
//
//   while (!course.over()) {
//     course.begin_turn(interrupted);
//     do {
//       const StepInfo info = course.begin_step();
//       ...                                  // zero the gradients, forward
//       course.begin_backward();             // before the last backward of the step
//       ...                                  // backward
//       course.average(loss);                // the gradients are now the mean
//       course.update();                     // the optimizer
//       course.end_step();                   // what is merged and what begins
//     } while (course.after_step(on_progress));
//     if (course.epoch_is_done()) {
//       course.end_epoch();
//       course.evaluate(score);              // may be left out
//       course.close_epoch(on_progress);
//     }
//     course.end_turn();
//   }
//   const Summary summary = course.finish();
//
// World and run are borrowed and outlive it. All ranks call its functions together. On a device the
// calling thread's current stream is always the same.
class Course {
 public:
  // Begins the run, or goes on with it: where a course before has left it, else, with
  // settings.resume, from a checkpoint. An epoch has so many steps, on all ranks. Throws
  // ConfigError for what does not fit.
  Course(World& world, Run& run, std::int64_t batches);
  Course(const Course&) = delete;
  Course& operator=(const Course&) = delete;
  ~Course();

  const Run& run() const { return run_; }
  const RunPlan& plan() const { return plan_; }
  Settings settings() const;  // with everything given that counts
  Communicator& team() { return team_; }
  bool has_saved() const { return has_saved_; }  // it has begun to write a checkpoint
  bool over() const { return run_.finished() || stopping_ || view_over_; }
  // This course is: the run goes on in the next one, in another view or with examples dealt anew.
  bool view_over() const { return view_over_; }
  bool stopping() const { return stopping_; }                   // a signal has said so
  std::optional<RunPlace> resumed() const { return resumed_; }  // where it went on; none: it began
  const Takeover& takeover() const { return takeover_; }        // from the view before
  // In a view, on rank 0: what the strategy did that no progress has told.
  const StrategyEvents& untold() const { return untold_; }
  const std::string& begun_with() const { return begun_with_; }  // what --init gave, on rank 0

  // Several runs can take turns on one world; only a course's own turns count in its seconds.
  void begin_turn(InterruptedBy interrupted);
  void end_turn();
  // Ends a turn for good: nothing of this run is on its way any more. Others use the same links.
  void settle();

  StepInfo begin_step();
  const StepInfo& step() const { return info_; }  // the one that was begun last
  // The ranks whose gradients are averaged in it.
  Communicator& averaged_with();
  // The learning rate of the step that was begun, where it is not the plan's; and of the next one,
  // as far as that is known. Equal on all ranks.
  void set_rate(double rate, std::optional<double> next_rate);
  void begin_backward();
  // Where the batches are not ours: how many examples a step of all ranks has, for the speed.
  void count_samples(double per_step);
  // The rest of the averaging; with the mean loss of this rank's batch, in fp64, which is not read.
  // Throws Error where it, or one of the steps before, is not finite.
  void average(const at::Tensor& loss);
  // False: the step is skipped, since gradients were not finite (fp16).
  bool update();
  void end_step();
  // By end_step(), or on the way into a view: parameters are no longer what the optimizer made of
  // them, since what other nodes had was merged or became part of a mean.
  bool exchanged() const { return exchanged_; }
  // Instead of steps, where only the end of the epoch is left to do.
  void go_on_at_end();
  // Tells of the step and does what else is due after it. False: the epoch has no step left, or a
  // signal says stop.
  bool after_step(const OnProgress& on_progress);
  bool epoch_is_done() const { return info_.batch == info_.last; }

  // After the epoch's last step: what nodes agree on.
  void end_epoch();
  // Of the averaged parameters, where there are any; what is kept as the best is what was
  // evaluated.
  void evaluate(const std::function<Score()>& score);
  void close_epoch(const OnProgress& on_progress);
  // BatchNorm's statistics become their mean; the last step of an epoch has done so.
  void average_buffers() { strategy_->average_buffers(); }

  void checkpoint();
  // The last checkpoint, and what came out. What rank 0 gets is the run's: times and exit code are
  // each rank's own, and with `none` and `node` losses are, too.
  Summary finish();
  // Leaves the run to the next course, with all that it needs; this one is then over.
  void leave();
  // The run, and what this course has to hand over with it; between two steps.
  RunState state();

 private:
  // The setup.
  void share_batch_norm();
  void begin_with(const std::filesystem::path& file);
  void go_on(const Resumption& from);
  void take_up();
  void enter_view();
  void keep_to_script();
  void adopt(const RunState& state);

  StepInfo info_at(int epoch, std::int64_t batch) const;
  void agree_on_scale();
  void keep_if_best();
  void note(const StrategyEvents& events);
  void look_after_joiners(const StrategyEvents& done);
  void drop_copies_after(const StrategyEvents& done);
  void drop_copies();
  void copy_for(const std::vector<std::string>& joiners, std::int64_t exchange);
  void tell_copies();
  std::int64_t unseen_per_step() const;
  Progress progress();

  // Stopping.
  bool checkpoint_due();
  Request own_request() const;

  World& world_;
  Run& run_;
  const LearningRateOptions rate_;
  const RunPlan plan_;
  const Takeover takeover_;  // from the view before
  const std::unique_ptr<Strategy> strategy_;
  Communicator& team_;  // the ranks that train one model together: they are evaluated together
  Control control_;
  CheckpointWriter checkpoints_;
  Disk best_disk_;  // of the best model
  SessionRecord record_;
  const std::unique_ptr<Lane>
      lane_;  // brings losses to the host, and knows the times of the device
  LossWatch loss_watch_;
  InterruptedBy interrupted_;
  StepInfo info_;  // of the step that was begun last, as are the next three
  std::optional<Span> span_;
  std::optional<DeviceSpan> device_span_;
  at::Tensor loss_;
  bool evaluated_ = false;  // in this epoch
  std::optional<RunPlace> resumed_;
  std::string begun_with_;  // empty: random numbers
  RunPlace saved_;          // that of the newest checkpoint; a run's beginning needs none
  bool has_saved_ = false;  // a checkpoint, or has begun to
  bool stopping_ = false;
  bool view_over_ = false;
  StrategyEvents untold_;
  std::optional<std::int64_t> samples_of_rank_;  // in a step, where the batches are not ours
  bool exchanged_ = false;
  bool equal_ = true;  // all nodes were, after the last step
  // Buffers, and what they were before the step that was begun and is not done; in a world for a
  // view.
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
  Clock::time_point last_checkpoint_ = Clock::now();
};

}  // namespace daso
