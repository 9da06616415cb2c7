// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "daso/global/nodes_mean.h"
#include "daso/model/flat_model.h"
#include "daso/optim/optimizer.h"

namespace daso {

// The blocking means of algorithm.md 3, in fp32 whatever the wire.
class Agreement {
 public:
  // All is borrowed.
  Agreement(World& world, FlatModel& model, Optimizer& optimizer, const Speakers& speakers);

  // Parameters and optimizer state of all nodes become their mean, step counters their maximum.
  // `rest` is Exchange::rest(). Throws PeerError; Error naming the first node whose part is not
  // finite, on all ranks.
  void agree(std::int64_t exchange, const at::Tensor& rest = {});
  // Parameters alone.
  void average_parameters(std::int64_t exchange);

  double wait_seconds() const { return wait_seconds_; }
  std::int64_t bytes_between_nodes() const { return mean_.bytes_between_nodes(); }

 private:
  // Returns the largest number of steps that a rank has done.
  std::int64_t refuse_non_finite(std::int64_t exchange, const std::vector<at::Tensor>& parts);

  World& world_;
  FlatModel& model_;
  Optimizer& optimizer_;
  NodesMean mean_;
  double wait_seconds_ = 0;
};

}  // namespace daso
