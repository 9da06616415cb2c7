// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/seconds.h"

namespace daso {

// Why a world is broken.
struct Failure {
  enum class Kind { kPeer, kConfig };
  Kind kind = Kind::kPeer;
  std::string text;          // what happened, who is missing
  std::vector<int> missing;  // ranks that are gone; may be empty
  // By rank: how many operations it has begun on each group; of those that answered the roll call.
  std::map<int, std::map<std::string, std::int64_t>> begun;
};

// What everything that waits in one process waits on: the thing it waits for, the bad news that it
// will never come, or its limit. The first failure stands for good.
class Alarm {
 public:
  enum class Outcome { kDone, kRaised, kLate };

  // Sleeps until done() holds, the alarm is raised, or the deadline has passed. If several are
  // true, the first named wins. done() runs with the lock held and must be cheap; what it looks at
  // is to be changed inside change().
  Outcome wait(const std::function<bool()>& done, const Deadline& deadline);
  void change(const std::function<void()>& edit);

  void raise(Failure failure);
  std::optional<Failure> raised() const;

  // Calls `action` when the alarm is raised, at once if it is already; until forget(ticket). It must
  // not use this alarm.
  using Action = std::function<void(const Failure&)>;
  std::int64_t on_raise(Action action);
  void forget(std::int64_t ticket);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failure> failure_;
  std::map<std::int64_t, Action> actions_;
  std::int64_t tickets_ = 0;
};

// Runs `task` on a thread of its own and waits for it. False if the alarm was raised or the
// deadline passed before: the task is then abandoned (base/abandonable.h). What the task throws is
// thrown here.
bool run_unless_raised(Alarm& alarm, std::function<void()> task, const Deadline& deadline);

}  // namespace daso
