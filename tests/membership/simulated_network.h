// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>

#include "daso/base/random.h"
#include "membership/faults.h"

namespace daso::membership {

inline constexpr unsigned kMostNodes = 8;

// Which messages arrive, and when. Later ones may overtake earlier ones at any time.
class SimulatedNetwork {
 public:
  SimulatedNetwork(std::uint64_t seed, double slowness)
      : random_{seed, 2}, usual_slowness_(slowness), slowness_(slowness) {}

  void begin(const Fault& fault, unsigned nodes) { change(fault, nodes, +1); }
  void end(const Fault& fault, unsigned nodes) { change(fault, nodes, -1); }

  bool reaches(unsigned from, unsigned to) const { return cuts_[from][to] == 0; }
  // The seconds that a message takes; none: it is lost.
  std::optional<double> delay(unsigned from, unsigned to);
  bool copies() { return random_.below(50) == 0; }  // it arrives once more
  double between(double least, double most) { return least + random_.fraction() * (most - least); }
  double slowness() const { return slowness_; }

 private:
  void change(const Fault& fault, unsigned nodes, int by);

  RandomStream random_;
  std::array<std::array<int, kMostNodes>, kMostNodes> cuts_{};
  int lost_percent_ = 0;
  double usual_slowness_;
  double slowness_;
};

}  // namespace daso::membership
