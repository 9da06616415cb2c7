// SPDX-License-Identifier: Apache-2.0
#include "membership/simulated_network.h"

#include <algorithm>

namespace daso::membership {

std::optional<double> SimulatedNetwork::delay(unsigned from, unsigned to) {
  if (!reaches(from, to)) return std::nullopt;
  if (lost_percent_ > 0 && static_cast<int>(random_.below(100)) < lost_percent_) {
    return std::nullopt;
  }
  return between(0.001, 0.02) * slowness_;
}

void SimulatedNetwork::change(const Fault& fault, unsigned nodes, int by) {
  switch (fault.kind) {
    case Fault::Kind::kCut:
      if (fault.node == fault.other) break;
      cuts_[fault.node][fault.other] += by;
      if (fault.detail != 0) cuts_[fault.other][fault.node] += by;
      break;
    case Fault::Kind::kSplit:
      for (unsigned from = 0; from < nodes; ++from) {
        for (unsigned to = 0; to < nodes; ++to) {
          if ((fault.detail >> from & 1) != (fault.detail >> to & 1)) cuts_[from][to] += by;
        }
      }
      break;
    case Fault::Kind::kDrop:
      lost_percent_ += by * static_cast<int>(fault.detail);
      break;
    case Fault::Kind::kSlow:
      slowness_ = by > 0 ? std::max<double>(slowness_, fault.detail) : usual_slowness_;
      break;
    default:
      break;
  }
}

}  // namespace daso::membership
