// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "daso/base/environment.h"
#include "daso/base/file_descriptor.h"
#include "daso/launch/cluster.h"

namespace daso {

struct Pipe {
  FileDescriptor read;  // does not block
  FileDescriptor write;
};
Pipe make_pipe();

// The file that a command of this name runs, searched in PATH like a shell does. Throws ConfigError
// if there is none or it may not be executed.
std::string find_program(const std::string& name, const Environment& environment);

struct ProgramCall {
  std::string path;
  std::vector<std::string> arguments;  // the first is the program's name
  Environment environment;
  const Namespaces* node = nullptr;  // to run there; none: here
  bool signals_by_input = false;     // it stands for a program elsewhere, which reads them
  int line = -1;                     // a descriptor that stays open in it; -1: none
};

// How a process ended.
struct ProcessEnd {
  int code = 0;
  int signal = 0;  // 0: by itself
};

// A program that runs in a process group of its own, its output in two pipes, its input empty, or a
// pipe by which it is told of signals. The destructor kills what is left of the group. Until then
// an ended process stays in the process table, so that its number cannot come to mean another.
class ChildProcess {
 public:
  // `mask` is the program's signal mask. Its number is written to `announce_to` before it runs, so
  // that somebody knows it even if we are killed on the spot. Throws ConfigError if it cannot run.
  ChildProcess(const ProgramCall& call, const sigset_t& mask, int announce_to);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  FileDescriptor take_output() { return std::move(output_); }
  FileDescriptor take_error() { return std::move(error_); }

  // Has it ended? Does not block.
  const std::optional<ProcessEnd>& look();

  // A signal to its group, or to the groups that it has started itself, if it has told of any; only
  // SIGKILL goes to all of them. Where signals go by its input, it gets one byte, the number; it
  // neither stops nor goes on with us.
  void send(int signal);
  // To its input, where signals go by it: before any of them.
  void write(const std::string& text);
  void adopt(pid_t group) { adopted_.push_back(group); }

 private:
  pid_t pid_ = 0;
  FileDescriptor input_;
  FileDescriptor output_;
  FileDescriptor error_;
  std::optional<ProcessEnd> end_;
  std::vector<pid_t> adopted_;
};

}  // namespace daso
