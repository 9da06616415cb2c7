// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/node_lives.h"

#include <algorithm>
#include <cmath>

namespace daso {
namespace {

constexpr Seconds kQuick{10};  // a node that lived for less did not come to anything
constexpr int kMostQuickDeaths = 3;
constexpr Seconds kFirstPause{0.25};

}  // namespace

void NodeLives::started(int node, Seconds now) {
  lives_[node].start = now;
  lives_[node].again.reset();
}

bool NodeLives::died(int node, Seconds now) {
  Life& life = lives_[node];
  life.quick_deaths = now - life.start < kQuick ? life.quick_deaths + 1 : 0;
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
