// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>

#include "daso/base/worker.h"
#include "daso/comm/node_link.h"
#include "daso/comm/ordered_mean.h"
#include "daso/comm/world.h"
#include "daso/exchange/gradient_watch.h"
#include "daso/tensor/flat_model.h"

namespace daso {

enum class Reach {
  kRank,  // nothing is averaged: a rank is alone
  kNode,  // local sync: the mean over the ranks of the node
  kWorld  // every rank counts equally: the weighted mean of the nodes' means
};

struct GradientSyncOptions {
  Reach farthest = Reach::kWorld;
  std::int64_t bucket_elements = 1 << 18;
  bool finite = true;  // refuse gradients that are not finite; else their mean is not finite either
};

// Averages gradients while backward still runs, bucket by bucket, in place in the flat gradient
// tensor.
//
//   model.zero_gradients();
//   sync.begin(Reach::kNode, step);  // before the last backward of a step; earlier ones accumulate
//   loss.backward();                 // buckets travel as they fill
//   sync.finish();                   // the rest; the gradients are now the mean
//
// A thread of its own takes the buckets in layout order. Over the world it reduces inside the node
// first, then each of the node's ranks averages its slice with its peers on the other nodes, and
// the node gathers the slices: between nodes each gradient travels once per node and not per rank.
// Between nodes a bucket travels in pieces, one behind the other, several at a time, so that links
// are never idle, not even with one tensor that is most of the model.
// All ranks within reach end with the same bits.
class GradientSync {
 public:
  // World and model are borrowed. Makes the groups that the farthest reach needs; all ranks within
  // it must do so together.
  GradientSync(World& world, FlatModel& model, const GradientSyncOptions& options);

  // The step is for messages.
  void begin(Reach reach, std::int64_t step);
  // Throws PeerError, and Error if a gradient of this rank is not finite and that is refused, or is
  // no longer part of the flat tensor.
  void finish();

  std::size_t buckets() const { return watch_.buckets().size(); }
  double wait_seconds() const { return wait_seconds_; }
  double busy_seconds() const { return busy_seconds_; }                      // of its thread
  std::int64_t bytes_between_nodes() const { return bytes_between_nodes_; }  // sent by this rank

 private:
  // A piece of a bucket on its way between nodes.
  struct Flight {
    std::size_t bucket = 0;
    Clock::time_point begin;
    at::Tensor gradients;
    at::Tensor slice;                   // this rank's part, if it has one
    std::unique_ptr<OrderedMean> mean;  // null: this rank has none
  };
  // Pieces that go on beyond the one that takes its next step: so many are launched before the
  // oldest turns, and so many have turned before the oldest lands.
  static constexpr std::size_t kAhead = 4;
  static constexpr std::size_t kFlights = 2 * kAhead + 1;

  void average(std::size_t bucket);
  void average_over_node(const at::Tensor& gradients);
  // Over the world, in three steps, each for the oldest piece that has not taken it.
  void launch(std::size_t bucket, const at::Tensor& gradients);
  void turn();
  void land();
  void land_all();
  void refuse_non_finite(const Bucket& bucket) const;

  World& world_;
  FlatModel& model_;
  NodeLink& node_;
  const bool finite_;
  const int slices_;                   // between nodes
  const std::int64_t piece_elements_;  // between nodes, at most
  std::array<Flight, kFlights> flights_;
  std::size_t launched_ = 0;  // pieces of this step that have taken the step of this name
  std::size_t turned_ = 0;
  std::size_t landed_ = 0;
  Reach reach_ = Reach::kNode;
  std::int64_t step_ = 0;
  double wait_seconds_ = 0;
  double busy_seconds_ = 0;
  std::int64_t bytes_between_nodes_ = 0;
  GradientWatch watch_;
  Worker worker_;  // last: it uses all of the above
};

}  // namespace daso
