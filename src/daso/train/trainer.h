// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daso/comm/world.h"
#include "daso/model/flat_model.h"
#include "daso/train/checkpoint.h"
#include "daso/train/control.h"
#include "daso/train/evaluation.h"
#include "daso/train/options.h"
#include "daso/train/summary.h"

namespace daso {

// What rank 0 is told while a run goes on.
struct Progress {
  When when;
  int epochs = 0;
  double seconds = 0;  // of the run, in this process
  Phase phase = Phase::kCycling;
  std::int64_t skip = 0;           // steps from the last start to the next; 0: nothing is exchanged
  int wait = 0;                    // steps from it to its merge; 0: it blocks
  std::int64_t in_flight_for = 0;  // steps since an exchange began that is not merged; 0: none is
  std::optional<std::int64_t> staleness;  // of the last merge
  std::optional<double> distance;         // of the last exchange (Strategy::distance)
  double loss = 0;                        // mean of the epoch so far; of all ranks at its end
  double samples_per_second = 0;          // of all ranks, in this epoch
  double wait_share = 0;    // of this rank's time in this epoch, blocked in communication
  double wait_seconds = 0;  // the same since the run began, in this process
  std::int64_t bytes_between_nodes = 0;  // sent by this rank
  std::optional<Late> late;              // the last one found
  std::vector<double> worked;            // seconds per step of each rank, as last heard of
  std::optional<Score> test;             // at an epoch's end
};
using OnProgress = std::function<void(const Progress&)>;
// The signal that asks this rank to save and stop, once there is one. Empty: there never is.
using InterruptedBy = std::function<std::optional<int>()>;

// One run, from data to a model: reads top to bottom in trainer.cpp.
class Trainer {
 public:
  // Opens data, model and strategy, and goes on from a checkpoint if asked to. The world is
  // borrowed. Throws ConfigError for what does not fit.
  Trainer(World& world, const TrainOptions& options);
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
  TrainOptions options() const;  // with everything given that counts
  bool finished() const;         // no epoch is left
  bool has_saved() const;        // it has begun to write a checkpoint
  std::optional<RunPlace> resumed() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace daso
