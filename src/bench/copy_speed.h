// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "daso/base/large_pages.h"

namespace daso::bench {

inline constexpr std::size_t kCacheLine = 64;

template <typename T>
struct LineAllocator {
  using value_type = T;

  LineAllocator() = default;
  template <typename U>
  explicit LineAllocator(const LineAllocator<U>& /*other*/) {}

  T* allocate(std::size_t elements) {
    const std::size_t bytes = elements * sizeof(T);
    void* first = ::operator new (bytes, std::align_val_t{kCacheLine});
    advise_large_pages({static_cast<std::byte*>(first), bytes});
    return static_cast<T*>(first);
  }
  void deallocate(T* first, std::size_t /*elements*/) {
    ::operator delete (first, std::align_val_t{kCacheLine});
  }
  bool operator==(const LineAllocator& /*other*/) const { return true; }
};

// Begins where a cache line does, as a tensor's memory does; on large pages where there are any.
template <typename T>
using AlignedVector = std::vector<T, LineAllocator<T>>;

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
