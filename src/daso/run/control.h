// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daso/comm/world.h"
#include "daso/record/lateness.h"

// Ranks take the same steps, and so must stop, or save, after the same one. A wish comes to one of
// them (interrupt.h: a signal; its clock); Control finds the step at which all grant it.
namespace daso {

// What ranks can ask of each other while training goes on; the larger one wins.
enum class Request : std::int64_t { kNothing = 0, kCheckpoint = 1, kStop = 2 };

// What all ranks know after a step.
struct Agreed {
  Request request = Request::kNothing;
  // Of the steps that were collected; none and empty where none were.
  std::optional<Late> late;
  std::vector<double> worked;  // seconds per step of each rank
};

// Finds the step at which all ranks do what one of them wishes: a step that no rank has passed.
// Every few steps the ranks begin to collect wishes, and how long their steps took, in the
// background, and look at the outcome as many steps later: all of them at the same step, mostly
// without having waited for it. From a wish to its step it takes two steps or ten seconds,
// whichever is longer (StepTimes::kHeardWithin).
class Control {
 public:
  // The world is borrowed. All ranks make theirs together, and wish from step `first` on: one that
  // none of them has passed. A rank that is behind may take steps before it, as in a view that
  // nodes enter where they were: it would wait there for one that waits for its next exchange.
  explicit Control(World& world, std::int64_t first = 0);

  // To be called after every step, with what this rank wishes and the seconds since the last call.
  // What it returns is the same on all ranks. A rank may wish until its wish is
  // granted: the call that grants it does not take the same wish again.
  Agreed after_step(std::int64_t step, Request own, StepSeconds seconds);

 private:
  Agreed agree(std::int64_t step, Request own);

  Views* const views_;
  const std::int64_t first_;
  StepTimes times_;
  bool broken_;  // nodes of this view are lost, or in a replay at steps of their own
};

}  // namespace daso
