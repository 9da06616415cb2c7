// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daso/comm/communicator.h"
#include "daso/local/gradient_watch.h"
#include "daso/model/flat_model.h"

namespace daso {

struct LocalSyncOptions {
  std::int64_t bucket_elements = 1 << 20;  // 4 MB of float32; --bucket-mb
};

// Local sync: averages the gradients over the ranks of a node while backward still runs, bucket by
// bucket, in place in the flat gradient tensor.
//
//   model.zero_gradients();
//   sync.begin();              // before the last backward of a step; earlier ones accumulate
//   loss.backward();           // buckets travel as they fill
//   sync.finish(limit);        // the rest; the gradients are now the node's mean
//
// All ranks of the group end with the same bits. On a group of one nothing travels.
class LocalSync {
 public:
  // Model and group are borrowed. No other thread may use the group between begin and finish.
  LocalSync(FlatModel& model, Communicator& node, LocalSyncOptions options = {});

  void begin();
  // Throws as Pending::wait does, and Error if a gradient is no longer part of the flat tensor.
  void finish(Seconds limit);

  std::size_t buckets() const { return watch_.buckets().size(); }

 private:
  void send(std::size_t bucket);

  FlatModel& model_;
  Communicator& node_;
  std::vector<Pending> in_flight_;
  GradientWatch watch_;
};

}  // namespace daso
