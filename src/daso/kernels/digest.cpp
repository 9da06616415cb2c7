// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/digest.h"

#include <algorithm>
#include <array>

#include "daso/kernels/kernels.h"

namespace daso {
namespace {

using Lanes = std::array<std::uint32_t, kernels::kDigestLanes>;

// Reversible in both arguments, as the lanes' own steps are.
std::uint64_t folded(std::uint64_t running, std::uint64_t next) {
  const std::uint64_t product = (running ^ next) * 0x9e3779b97f4a7c15U;
  return product ^ (product >> 32U);
}

}  // namespace

std::uint64_t digest_of(std::span<const float> values, InstructionSet set) {
  const auto digest = kernels::kernels_of(set).digest;
  Lanes lanes{};
  const std::size_t rows = values.size() / lanes.size();
  digest({values.data(), rows, lanes.data()});
  const std::span<const float> left = values.subspan(rows * lanes.size());
  if (!left.empty()) {  // filled up with zeros; the number of elements tells them apart
    std::array<float, kernels::kDigestLanes> last{};
    std::copy(left.begin(), left.end(), last.begin());
    digest({last.data(), 1, lanes.data()});
  }
  std::uint64_t all = values.size();
  for (std::size_t i = 0; i < lanes.size(); i += 2) {
    all = folded(all, lanes.at(i) | (std::uint64_t{lanes.at(i + 1)} << 32U));
  }
  return all;
}

}  // namespace daso
