// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daso/policy/phase.h"
#include "daso/policy/plateau.h"
#include "daso/policy/rate.h"

// Which phase an epoch belongs to, and how often it exchanges (algorithm.md 5).
namespace daso {

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

  // To be told the end of every epoch, with the mean training loss of all ranks.
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
