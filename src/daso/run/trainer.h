// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daso/comm/world.h"
#include "daso/record/progress.h"
#include "daso/record/summary.h"
#include "daso/run/checkpoint.h"
#include "daso/run/control.h"
#include "daso/run/evaluation.h"
#include "daso/run/settings.h"
#include "daso/tensor/flat_model.h"

namespace daso {

// The signal that asks this rank to save and stop, once there is one. Empty: there never is.
using InterruptedBy = std::function<std::optional<int>()>;

// One run, from data to a model: reads top to bottom in trainer.cpp.
class Trainer {
 public:
  // Opens data, model and strategy, and goes on from a checkpoint if asked to. The world is
  // borrowed. Throws ConfigError for what does not fit.
  Trainer(World& world, const Settings& options);
  ~Trainer();

  // Trains until the last epoch, or until a signal says stop. What rank 0 gets is the run's: times
  // and exit code are each rank's own, and with `none` and `node` losses are, too. `on_progress` is
  // called after every step on rank 0.
  Summary run(const OnProgress& on_progress, const InterruptedBy& interrupted);

  // The same in pieces, so that several runs can take turns on one world: one epoch, or what is
  // left of it; false when there is none left. Only its own turns count in a run's seconds.
  bool advance(const OnProgress& on_progress, InterruptedBy interrupted);
  // Ends a turn: nothing of this run is on its way any more. Others use the same links.
  void settle();
  Summary finish();

  const FlatModel& model() const;
  Settings options() const;  // with everything given that counts
  bool finished() const;     // no epoch is left
  bool has_saved() const;    // it has begun to write a checkpoint
  std::optional<RunPlace> resumed() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace daso
