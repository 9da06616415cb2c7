// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/base/worker.h"
#include "daso/comm/views.h"
#include "daso/comm/world.h"
#include "daso/exchange/hierarchical_mean.h"
#include "daso/optim/optimizer.h"
#include "daso/tensor/flat_model.h"
#include "daso/tensor/lane.h"

namespace daso {

// The blocking means over the nodes of algorithm.md 3, in fp32 whatever the wire. Nobody needs the
// optimizer's state before its next step, so that part of an agreement travels in the background
// until then.
//
// In a world for a view a mean is a transaction, as an exchange is: it is computed in copies and
// taken over once all nodes have it, the optimizer's state at once as well. What is not taken over
// has changed nothing on any node, and is to be done again in the next view.
//
// Before a mean the ranks of a node compare what they hold, and all ranks what the mean before has
// left (copies.h): digests travel with what they tell each other anyway.
class Agreement {
 public:
  // All is borrowed but the lane, which is null for that of the model's device.
  Agreement(World& world, FlatModel& model, Optimizer& optimizer, const Leaders& leaders,
            std::shared_ptr<Lane> lane = nullptr);

  // Parameters and optimizer state of all nodes become their mean, step counters their maximum; the
  // optimizer's state by settle(). `residuals` are Exchange::residuals(). `also` waits for other
  // nodes too and works on a copy of its own, which is to be taken over after this. False: the view
  // has ended. Throws PeerError; Error naming the first node whose part is not finite, on all
  // ranks; and what copies.h says.
  bool agree(std::int64_t exchange, const std::vector<at::Tensor>& residuals = {},
             const std::function<void()>& also = {});
  // Waits for what agree() has left in the background. Throws PeerError.
  void settle();
  // Parameters alone.
  bool average_parameters(std::int64_t exchange);

  Costs costs() const;  // up to the last settle()

 private:
  static constexpr std::int64_t kNothing = -1;

  // In the lane, between what the caller has been given and what it will be given.
  void average(const at::Tensor& tensor, std::int64_t exchange,
               const std::vector<at::Tensor>& residuals = {});

  // Does `task`, which waits for other nodes, as one of a view's exchanges. False: it does not
  // count.
  bool in_view(std::int64_t exchange, const std::function<void()>& task);
  bool agree_in_view(std::int64_t exchange, const std::vector<at::Tensor>& residuals,
                     const std::function<void()>& also);

  // What the ranks tell each other before a mean: refuses what is not finite and copies that
  // differ. Returns the largest number of steps that a rank has done.
  std::int64_t compare(std::int64_t exchange, const std::vector<at::Tensor>& parts);
  void remember_mean(std::int64_t exchange);

  World& world_;
  FlatModel& model_;
  Optimizer& optimizer_;
  Views* const views_;    // null in a world for good
  NodeLink& host_;        // of the node, for memory of the host
  NodeLink* const home_;  // the same, for wait_for_nodes(); null in a world for good
  const std::shared_ptr<Lane> lane_;
  const std::unique_ptr<NodeLink> staged_;  // null on the CPU
  HierarchicalMean mean_;
  std::int64_t unsettled_ = kNothing;  // the agreement whose optimizer state is on its way
  std::int64_t last_mean_ = kNothing;  // of parameters, in this world
  at::Tensor mean_digest_;             // of what it has left here
  double busy_seconds_ = 0;
  std::int64_t bytes_between_nodes_ = 0;
  const LaneEnd end_;
  Worker worker_;  // last: it uses all of the above
};

}  // namespace daso
