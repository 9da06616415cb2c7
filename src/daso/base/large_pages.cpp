// SPDX-License-Identifier: Apache-2.0
#include "daso/base/large_pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <memory>

namespace daso {

void advise_large_pages(std::span<std::byte> memory) {
#ifdef MADV_HUGEPAGE
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* first = memory.data();
  std::size_t bytes = memory.size();
  if (std::align(page, page, first, bytes) == nullptr) return;  // less than a page
  // A kernel without large pages refuses, which is all right.
  static_cast<void>(::madvise(first, bytes / page * page, MADV_HUGEPAGE));
#else
  static_cast<void>(memory);
#endif
}

}  // namespace daso
