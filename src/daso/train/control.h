// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daso/comm/world.h"

namespace daso {

// What ranks can ask of each other while training goes on; the larger one wins.
enum class Wish : std::int64_t { kNothing = 0, kCheckpoint = 1, kStop = 2 };

// Finds the step at which all ranks do what one of them wishes (a signal reached it, its clock says
// so): a step that no rank has passed. Every kInterval steps the ranks begin to collect wishes in
// the background, and look at the outcome kInterval steps later: all of them at the same step,
// without having waited for it.
class Control {
 public:
  static constexpr std::int64_t kInterval = 8;

  // The world is borrowed. All ranks make theirs together.
  explicit Control(World& world);

  // To be called after every step, with what this rank wishes. What it returns is the same on all
  // ranks.
  Wish after_step(std::int64_t step, Wish own);

 private:
  World& world_;
  Communicator& ranks_;
  std::optional<Pending> collecting_;
};

}  // namespace daso
