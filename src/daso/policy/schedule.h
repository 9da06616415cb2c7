// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daso/optim/stall.h"
#include "daso/policy/run_plan.h"

// Which phase an epoch belongs to, and how often it exchanges (algorithm.md 5): the phases, the
// cadence within cycling, and the two rules by which it changes in the course of a run.
namespace daso {

// The three parts of a run. Blocking phases average gradients over the world in every step; cycling
// averages them within the node and exchanges parameters between nodes.
enum class Phase { kWarmup, kCycling, kCooldown };

// "warmup", "cycling", "cooldown"
const char* name_of(Phase phase);

constexpr bool is_blocking(Phase phase) { return phase != Phase::kCycling; }

struct Phases {
  int epochs = 1;    // of the whole run, at least 1
  int warmup = 0;    // epochs at the beginning
  int cooldown = 0;  // epochs at the end; where both claim an epoch, it is cool-down
};

// Throws ConfigError. Warm-up and cool-down may be longer than the run.
void validate(const Phases& phases);

// Epochs count from 0.
Phase phase_of(const Phases& phases, int epoch);

// How often cycling exchanges.
struct Cadence {
  int skip = 4;  // steps from one start to the next, at least 1
  int wait = 1;  // steps from start to merge, 1 ... skip
  bool operator==(const Cadence&) const = default;
};

// Throws ConfigError.
void validate(const Cadence& cadence);

// The rule `rate` (after QSR, arXiv 2310.14423): the period follows the learning rate, short while
// it is high, long at the end of the run.
struct RateOptions {
  int skip = 4;      // the shortest period
  double alpha = 0;  // the rate below which periods grow beyond 1; mostly the peak; above 0
};

// Throws ConfigError.
void validate(const RateOptions& options);

// The skip of the round that begins with a start after this step:
//   max(skip, floor((alpha / info.rate)^2))
// While the rate is still rising it is skip; with a rate of 0 or less it is the whole epoch. It is
// not cut at the epoch's end, but at kEndless. Throws ConfigError where a rate is not finite.
std::int64_t period(const RateOptions& options, const StepInfo& info);

// The rule `plateau`, that of the paper: exchanges come more often each time the training loss has
// stalled, and start over when they cannot come more often.
struct PlateauState {
  StallState stall;
  Cadence cadence;  // of the next epoch of cycling
  bool operator==(const PlateauState&) const = default;
};

// Both halved by integer division, never below 1; from skip 1 back to the initial pair.
Cadence after_stall(const Cadence& now, const Cadence& initial);

enum class ScheduleKind {
  kRate,     // skip follows the learning rate
  kPlateau,  // skip follows the training loss
  kFixed,    // (skip, wait) throughout
  kListed    // whatever is listed, epoch by epoch: golden cases
};

// What --schedule takes: rate, plateau, fixed.
std::vector<std::string> schedule_names();
// The name of a kind, and the kind of a name that is in the list.
std::string name_of(ScheduleKind kind);
ScheduleKind schedule_kind_of(const std::string& name);

struct EpochPlan {
  Phase phase = Phase::kCycling;
  Cadence cadence;  // 0, 0 in blocking phases
  bool operator==(const EpochPlan&) const = default;
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kRate;
  Phases phases;                  // not for kListed
  Cadence cadence;                // kFixed: always; kPlateau: the first; kRate: shortest skip, wait
  StallOptions stall;             // kPlateau
  double alpha = 0;               // kRate: no default, since it is the peak of the learning rate
  std::vector<EpochPlan> listed;  // kListed: all epochs
};

// A value: the same on all ranks, since all are fed the same losses. Its state is what a checkpoint
// keeps of a kPlateau.
class Schedule {
 public:
  // Throws ConfigError where the options do not hold.
  explicit Schedule(ScheduleOptions options);

  const ScheduleOptions& options() const { return options_; }
  int epochs() const;

  // What the epoch does. Of later epochs than the one that is under way kPlateau tells what would
  // be if the loss did not stall.
  EpochPlan epoch(int epoch) const;

  // The skip of the round that begins with a start after this step of a cycling epoch.
  std::int64_t round(const StepInfo& info) const;

  // To be called at the end of every epoch, with the mean training loss of all ranks.
  void end_epoch(int epoch, double loss);

  const PlateauState& state() const { return state_; }
  // Other kinds than kPlateau have no state: what their options say counts, whatever a run did
  // before it was stopped.
  void load_state(const PlateauState& state);

 private:
  ScheduleOptions options_;
  PlateauState state_;  // kPlateau only; else as it was in the beginning
};

}  // namespace daso
