// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "daso/base/seconds.h"

namespace daso {

// While it lives, the waits of the thread that made it call `look` every 50 ms. What that throws
// ends the wait: so a host program sees to its signals, which an interpreter does on one thread
// alone. Waits of other threads are left in peace.
class WhileWaiting {
 public:
  explicit WhileWaiting(std::function<void()> look);
  WhileWaiting(const WhileWaiting&) = delete;
  WhileWaiting& operator=(const WhileWaiting&) = delete;
  ~WhileWaiting();

  // For those who wait: how long before the next look, at most to the deadline; and the look.
  static Clock::time_point pause(Clock::time_point deadline);
  static void look();

 private:
  const std::function<void()> look_;
  WhileWaiting* const outer_;
};

}  // namespace daso
