// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/distance.h"

#include <array>
#include <cmath>
#include <numeric>

namespace daso {

double distance_between(Wire wire, std::span<const std::byte> one,
                        std::span<const std::byte> other) {
  const std::size_t block = encoded_bytes(wire, kBlockElements);
  std::array<float, kBlockElements> first{};
  std::array<float, kBlockElements> second{};
  double sum = 0;
  for (std::size_t at = 0; at < one.size(); at += block) {
    decode(wire, one.subspan(at, block), first);
    decode(wire, other.subspan(at, block), second);
    std::array<float, 16> lanes{};  // so that the compiler may add several at once
    for (std::size_t i = 0; i < kBlockElements; ++i) {
      const float difference = second[i] - first[i];
      lanes[i % lanes.size()] += difference * difference;
    }
    sum += std::accumulate(lanes.begin(), lanes.end(), 0.0);
  }
  const auto elements = static_cast<double>(one.size() / block * kBlockElements);
  return elements == 0 ? 0 : std::sqrt(sum / elements);
}

}  // namespace daso
