// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"

namespace daso::test {

inline constexpr Seconds kPatience{20};  // far above what any of it takes

// A launch_probe that runs; killed with the object.
class Launched {
 public:
  // Words of launch_probe. On a terminal of its own if asked for.
  explicit Launched(const std::vector<std::string>& words, bool on_terminal = false);
  // The probe runs a shell script as every rank.
  static std::vector<std::string> script(std::vector<std::string> flags, const std::string& text);
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;
  ~Launched();

  pid_t pid() const { return pid_; }
  void send(int signal) const { ::kill(pid_, signal); }
  // Reads until the probe's output ends and the probe itself does; its exit code, or -signal. Fails
  // the test after kPatience.
  int wait();
  // Reads until so many lines have come on standard output and standard error together.
  void read_lines(std::size_t lines);
  // The numbers that the ranks have printed, a line "pid NUMBER" each; waits for so many lines.
  std::vector<pid_t> process_numbers(std::size_t ranks);

  const std::string& output() const { return output_; }
  const std::string& error() const { return error_; }

 private:
  bool read_some(const Deadline& deadline);

  pid_t pid_ = 0;
  bool reaped_ = false;
  FileDescriptor output_end_;
  FileDescriptor error_end_;
  std::string output_;
  std::string error_;
};

// As /proc has it: T is stopped, Z an entry that nobody has collected; none: there is no process.
std::optional<char> state_of(pid_t pid);
// Waits until the process is gone (or only its entry is left); false after kPatience.
bool gone(pid_t pid);

std::vector<std::string> lines_of(const std::string& text);
std::size_t occurrences(const std::string& text, const std::string& part);

}  // namespace daso::test
