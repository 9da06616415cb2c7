// SPDX-License-Identifier: Apache-2.0
#include "daso/local/local_sync.h"

namespace daso {

LocalSync::LocalSync(FlatModel& model, Communicator& node, LocalSyncOptions options)
    : model_(model),
      node_(node),
      watch_(model, cut_buckets(model.parameter_spans(), options.bucket_elements),
             [this](std::size_t bucket) { send(bucket); }) {}

void LocalSync::begin() { watch_.arm(); }

void LocalSync::finish(Seconds limit) {
  watch_.flush();
  const Deadline deadline(limit);
  for (Pending& pending : in_flight_) std::move(pending).wait(deadline.left());
  in_flight_.clear();
  model_.check();
}

void LocalSync::send(std::size_t bucket) {
  const Bucket& range = watch_.buckets()[bucket];
  if (range.begin == range.end) return;  // only tensors without elements
  // A view of the flat gradients is lent to the operation: nothing touches it until finish().
  in_flight_.push_back(node_.all_reduce(
      model_.gradients().narrow(0, range.begin, range.end - range.begin), Reduce::kMean));
}

}  // namespace daso
