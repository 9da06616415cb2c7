// SPDX-License-Identifier: Apache-2.0
#include "daso/data/batch_pool.h"

#include <ATen/core/Tensor.h>

#include "daso/data/batch_maker.h"

namespace daso {
namespace {

// By this pool alone, neither as a tensor nor by a view of it. LibTorch reads its counts without
// order: only who has taken hold and let go comes after those that have let go before.
bool held_once(const at::Tensor& tensor) {
  if (tensor.use_count() != 1 || tensor.storage().use_count() != 1) return false;
  static_cast<void>(at::Tensor(tensor));
  static_cast<void>(c10::Storage(tensor.storage()));
  return true;
}

}  // namespace

Batch BatchPool::take(std::int64_t examples) {
  const std::lock_guard lock(mutex_);
  for (const Batch& batch : batches_) {
    if (batch.labels.size(0) == examples && held_once(batch.inputs) && held_once(batch.labels)) {
      return batch;
    }
  }
  return batches_.emplace_back(empty_batch(shape_, examples));
}

}  // namespace daso
