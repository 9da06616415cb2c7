// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "daso/base/seconds.h"

namespace daso {

// Runs calls that may never return: those to a disk, to a store on another machine, to a library
// that waits for peers. They run on a thread of this object's own, one after another, while the
// caller waits with a limit. A call that is not over by then is abandoned: its thread goes on by
// itself and may outlive this object, so a call must own all that it touches.
class Abandonable {
 public:
  enum class Outcome {
    kDone,
    kLate,     // abandoned, or not begun since others used up the time
    kStopped,  // abandoned, because the caller asked for a stop
    kStuck,    // not begun: an earlier call was abandoned and is still not over, see hanging()
  };

  // The name is what debuggers and top show of the thread; the system cuts it after 15 letters.
  explicit Abandonable(const std::string& thread_name);
  Abandonable(const Abandonable&) = delete;
  Abandonable& operator=(const Abandonable&) = delete;
  ~Abandonable();  // waits for nobody

  // Waits until the call is over, the deadline has passed or a stop is asked for; in the last case
  // `patience` more. What the call throws is thrown here. What it owns is destroyed on the thread,
  // before it counts as over. From any thread.
  Outcome run(std::function<void()> call, const Deadline& deadline, const std::string& what = "",
              const std::stop_token& stop = {}, Seconds patience = Seconds(0));

  // What the abandoned call is that keeps others from beginning; empty: none does.
  std::string hanging() const;

 private:
  struct Call;
  struct Shared;

  std::shared_ptr<Shared> shared_;  // the thread's as well
  std::thread thread_;
};

}  // namespace daso
