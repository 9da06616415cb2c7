// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/draws.h"

#include "daso/base/random.h"

namespace daso {
namespace {

constexpr std::uint64_t kRounding = 6;  // tells this use of the seed from others

}  // namespace

std::uint64_t draw_key(std::uint64_t seed, std::int64_t exchange, std::int64_t sender) {
  return RandomStream{seed, kRounding, static_cast<std::uint64_t>(exchange),
                      static_cast<std::uint64_t>(sender)}
      .next();
}

}  // namespace daso
