// SPDX-License-Identifier: Apache-2.0
#include "bench/pace.h"

namespace daso::bench {
namespace {

enum class Draw : std::uint8_t { kNoise, kStall };

double draw(const PaceOptions& options, int node, std::int64_t step, Draw what) {
  constexpr std::uint64_t kMost = 1'000'003;  // steps and nodes stay apart below this
  std::uint64_t counter = options.seed * kMost + static_cast<std::uint64_t>(node);
  counter = counter * kMost + static_cast<std::uint64_t>(step);
  return uniform(counter * 2 + static_cast<std::uint64_t>(what));
}

}  // namespace

double uniform(std::uint64_t counter) {
  std::uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

Pace pace_of(const PaceOptions& options, int nodes, int node, std::int64_t step) {
  Pace pace;
  if (node == nodes - 1) {
    pace.stretch += 2 * options.noise * draw(options, node, step, Draw::kNoise);
  }
  if (draw(options, node, step, Draw::kStall) < options.stall_chance) pace.stall = options.stall;
  return pace;
}

}  // namespace daso::bench
