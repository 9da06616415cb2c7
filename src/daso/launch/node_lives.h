// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>

#include "daso/base/seconds.h"

namespace daso {

// When a node that was lost is started again: after a pause that doubles from death to death, so
// many times. Not after three quick deaths in a row: a node that did not get as far as a view would
// die again. Pure: told of deaths and the time, it says what is due.
class NodeLives {
 public:
  explicit NodeLives(int restarts) : restarts_(restarts) {}

  void started(int node) { lives_[node].again.reset(); }
  // Its ranks are gone; `entered`: they had been in a view. False: it is not started again.
  bool died(int node, bool entered, Seconds now);
  // A node whose start is due; none: not now.
  std::optional<int> due(Seconds now) const;
  // How long until the next start; none: none is planned.
  std::optional<Seconds> pause(Seconds now) const;
  void forget_all() { lives_.clear(); }

 private:
  struct Life {
    std::optional<Seconds> again;
    int restarts = 0;
    int quick_deaths = 0;
  };
  const int restarts_;
  std::map<int, Life> lives_;
};

}  // namespace daso
