// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "daso/base/disk.h"
#include "daso/data/evaluation_loader.h"
#include "daso/data/loader.h"
#include "daso/optim/gradients.h"
#include "daso/record/meter.h"
#include "daso/record/trace.h"
#include "daso/run/checkpoint_writer.h"
#include "daso/run/control.h"
#include "daso/run/tally.h"
#include "daso/run/trainer.h"
#include "daso/tensor/flat_model.h"

namespace daso {

struct ModelInput;
class Network;

// What a Trainer has: its beginning in trainer_setup.cpp, the loop in trainer.cpp, what a
// checkpoint keeps in trainer_state.cpp, what people see in trainer_progress.cpp.
struct Trainer::Body {
  Body(World& the_world, const Settings& the_options);
  void share_batch_norm();
  void begin_with(const std::filesystem::path& file);

  // The loop.
  bool advance(const OnProgress& on_progress);
  void train_epoch(int epoch, std::int64_t from, const OnProgress& on_progress);
  StepInfo when_at(int epoch, std::int64_t batch) const;
  Batch next_batch(const StepInfo& info);
  double train_batch(const Batch& batch, const StepInfo& info);
  at::Tensor scores_of(const at::Tensor& inputs);
  void update(const StepInfo& info);
  void end_epoch(int epoch, const OnProgress& on_progress);
  void evaluate_epoch(int epoch);
  void agree_on_scale();
  bool checkpoint_due(const StepInfo& info);
  Request own_request() const;

  // What a checkpoint keeps.
  ModelInput input() const;
  void checkpoint(RunPlace at);
  std::optional<std::filesystem::path> chosen_checkpoint();
  bool is_ours(const std::filesystem::path& checkpoint) const;
  void resume();
  void take_up(const State& from, bool same_strategy);
  void keep_if_best();

  // What people see.
  void record_step(std::int64_t step);
  Progress progress(const StepInfo& info) const;
  Summary finish();
  std::int64_t bad_images();

  World& world;
  const Settings options;
  Datasets data;
  std::shared_ptr<Network> network;
  FlatModel model;
  std::unique_ptr<Optimizer> optimizer;
  std::optional<LossScaler> scaler;  // of fp16
  LoaderOptions loading;
  Loader loader;
  LearningRateOptions rate;
  RunPlan run_plan;
  std::unique_ptr<Strategy> strategy;
  Communicator& team;  // the ranks that train one model together: they are evaluated together
  EvaluationLoader test_part;
  Control control;
  CheckpointWriter checkpoints;
  Disk best_disk;  // of the best model
  std::optional<Trace> trace;
  InterruptedBy interrupted;

  RunPlace place;  // the step to go on with
  RunPlace saved;  // that of the newest checkpoint; a run's beginning needs none
  bool resumed = false;
  bool has_saved = false;  // a checkpoint, or has begun to
  bool stopping = false;
  Tally tally;

  // All below is of this process.
  Meter meter;
  Clock::time_point last_checkpoint = Clock::now();
};

}  // namespace daso
