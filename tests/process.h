// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/seconds.h"

namespace daso::test {

// How a process ended: its exit code, or 128 + the signal as a shell would say.
struct Ending {
  int code = 0;
  Clock::time_point when;
};

// A real child process with its output in a file. Killed and reaped when the object dies.
class Process {
 public:
  // `variables` are added to this process's environment.
  Process(const std::vector<std::string>& command,
          const std::map<std::string, std::string>& variables = {});
  Process(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }
  void send(int signal) const;
  // Waits for the end; a test failure and the code -1 if the limit passes first.
  Ending wait(Seconds limit);
  std::string standard_output() const;
  std::string standard_error() const;

 private:
  pid_t pid_ = 0;
  std::string files_;  // prefix of the two files
  std::optional<Ending> ending_;
};

// True once no process has this id any more, or only as a zombie; waits up to the limit.
bool is_gone(pid_t pid, Seconds limit);

// Waits until a condition holds; false if the limit passes first.
template <typename Condition>
bool holds_within(Seconds limit, const Condition& condition);

}  // namespace daso::test

#include <thread>

template <typename Condition>
bool daso::test::holds_within(Seconds limit, const Condition& condition) {
  for (const Deadline deadline(limit); !deadline.passed();) {
    if (condition()) return true;
    std::this_thread::sleep_for(Seconds(0.005));
  }
  return condition();
}
