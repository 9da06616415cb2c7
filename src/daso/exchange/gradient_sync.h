// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daso/base/worker.h"
#include "daso/comm/node_link.h"
#include "daso/comm/world.h"
#include "daso/exchange/gradient_watch.h"
#include "daso/exchange/hierarchical_mean.h"
#include "daso/tensor/flat_model.h"
#include "daso/tensor/lane.h"

namespace daso {

enum class Reach {
  kRank,  // nothing is averaged: a rank is alone
  kNode,  // local sync: the mean over the ranks of the node
  kWorld  // every rank counts equally: the weighted mean of the nodes' means
};

struct GradientSyncOptions {
  Reach farthest = Reach::kWorld;
  std::int64_t bucket_elements = 1 << 18;
  // Refuse gradients that are not finite; else their mean is not finite either. On a device nobody
  // asks here: the answer would take a wait for each bucket. A run looks at the means two steps
  // later (LossWatch).
  bool finite = true;
};

// How gradients reach the host and the other ranks of the node; null: as those of the model's
// device do. The link is borrowed, and is for the lane's tensors.
struct GradientWays {
  std::shared_ptr<Lane> lane = nullptr;
  NodeLink* node = nullptr;
};

// Averages gradients while backward still runs, bucket by bucket, in place in the flat gradient
// tensor.
//
//   model.zero_gradients();
//   sync.begin(Reach::kNode, step);  // before the last backward of a step; earlier ones accumulate
//   loss.backward();                 // buckets travel as they fill
//   sync.finish();                   // the rest; the gradients are now the mean
//
// A thread of its own takes the buckets in layout order. Over several nodes they go through a
// HierarchicalMean, in pieces, so that between nodes each gradient travels once per node and not
// per rank, and links are never idle, not even with one tensor that is most of the model.
// All ranks within reach end with the same bits.
//
// On a device a lane follows backward from bucket to bucket, and what the caller is given after
// finish() follows the lane.
class GradientSync {
 public:
  // World and model are borrowed. Makes the groups that the farthest reach needs; all ranks within
  // it must do so together.
  GradientSync(World& world, FlatModel& model, const GradientSyncOptions& options,
               const GradientWays& ways = {});

  // The step is for messages.
  void begin(Reach reach, std::int64_t step);
  // Throws PeerError, and Error if a gradient of this rank is not finite and that is refused, or is
  // no longer part of the flat tensor.
  void finish();

  std::size_t buckets() const { return watch_.buckets().size(); }
  Costs costs() const;  // after finish()

 private:
  void hand_over(std::size_t bucket);
  void average(std::size_t bucket);
  void average_over_world(std::size_t bucket, const at::Tensor& gradients);
  void refuse_non_finite(const Bucket& bucket) const;

  World& world_;
  FlatModel& model_;
  const std::shared_ptr<Lane> lane_;
  NodeLink& node_;
  const bool finite_;
  const std::int64_t piece_elements_;  // between nodes, at most
  std::optional<Leaders> leaders_;     // none where nothing travels between nodes
  std::optional<HierarchicalMean> world_mean_;
  Reach reach_ = Reach::kNode;
  std::int64_t step_ = 0;
  double busy_seconds_ = 0;  // of its thread, up to the last finish()
  GradientWatch watch_;
  const LaneEnd end_;
  Worker worker_;  // last: it uses all of the above
};

}  // namespace daso
