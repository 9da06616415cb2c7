// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/node_lives.h"

#include <algorithm>
#include <cmath>

namespace daso {
namespace {

constexpr int kMostQuickDeaths = 3;
constexpr Seconds kFirstPause{0.25};

}  // namespace

bool NodeLives::died(int node, bool entered, Seconds now) {
  Life& life = lives_[node];
  life.quick_deaths = entered ? 0 : life.quick_deaths + 1;
  if (life.restarts == restarts_ || life.quick_deaths == kMostQuickDeaths) return false;
  ++life.restarts;
  life.again = now + kFirstPause * std::exp2(life.quick_deaths);
  return true;
}

std::optional<int> NodeLives::due(Seconds now) const {
  for (const auto& [node, life] : lives_) {
    if (life.again && *life.again <= now) return node;
  }
  return std::nullopt;
}

std::optional<Seconds> NodeLives::pause(Seconds now) const {
  std::optional<Seconds> shortest;
  for (const auto& [node, life] : lives_) {
    if (!life.again) continue;
    const Seconds left = std::max(Seconds(0), *life.again - now);
    shortest = shortest ? std::min(*shortest, left) : left;
  }
  return shortest;
}

}  // namespace daso
