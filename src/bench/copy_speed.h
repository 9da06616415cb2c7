// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "bench/aligned_vector.h"

namespace daso::bench {

// How fast one thread of this machine copies memory that lies in no cache: the bound that a pass
// over memory is measured against.
class CopySpeed {
 public:
  // Copies of half of `bytes`, so that as many are read and written in all; at most most_bytes.
  explicit CopySpeed(std::size_t most_bytes);

  // Copies once in each way there is (memcpy; stores that go past the caches) and gives the seconds
  // of the faster one.
  double seconds(std::size_t bytes);

 private:
  AlignedVector<std::byte> source_;
  AlignedVector<std::byte> target_;
};

}  // namespace daso::bench
