// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <vector>

#include "daso/data/batch.h"
#include "daso/data/dataset.h"

namespace daso {

// Batches of one shape whose memory is used again when nobody holds them any more: memory fresh
// from the system is given page by page, which takes as long as filling it with images. Several
// threads may ask at once.
class BatchPool {
 public:
  explicit BatchPool(const InputShape& shape) : shape_(shape) {}

  // Its values are whatever was there.
  Batch take(std::int64_t examples);

 private:
  const InputShape shape_;
  std::mutex mutex_;            // guards what follows
  std::vector<Batch> batches_;  // as many as were held at once
};

}  // namespace daso
