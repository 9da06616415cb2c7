// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "daso/comm/views.h"
#include "daso/comm/world.h"
#include "daso/policy/run_plan.h"
#include "daso/tensor/flat_model.h"
#include "daso/tensor/lane.h"

namespace daso {

// Ranks that average all their gradients have equal parameters after every step. Where one has not,
// since a bit has flipped in its memory or it computes otherwise than the rest, nothing would ever
// mend that: so every few steps, and when an epoch ends, they compare digests, in the background.
// Each comparison takes one pass over the parameters and a few bytes of each rank.
class EqualCopies {
 public:
  static constexpr std::int64_t kEvery = 16;  // steps

  // All is borrowed; no other thread uses `ranks`.
  EqualCopies(World& world, const FlatModel& model, Communicator& ranks);

  // After every step that leaves them equal, by all ranks. Throws what copies.h says.
  void after_step(const StepInfo& info);

 private:
  void begin(std::int64_t step);
  void tell();
  void compare();

  World& world_;
  const FlatModel& model_;
  Communicator& ranks_;
  NodeLink* const home_;  // for wait_for_nodes()
  const std::unique_ptr<Lane> lane_;
  std::int64_t step_ = 0;           // after which the digest was taken
  at::Tensor digest_;               // this rank's
  at::Tensor digest_here_;          // the same on the host
  std::shared_ptr<LaneMark> here_;  // once it is there; null: it is told, or there is none
  std::optional<Pending> telling_;
};

}  // namespace daso
