// SPDX-License-Identifier: Apache-2.0
#include "daso/base/checksum.h"

#include <xxhash.h>

namespace daso {

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH64(bytes.data(), bytes.size(), /*seed=*/0);
}

}  // namespace daso
