// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <optional>

#include "daso/base/file_descriptor.h"

namespace daso {

// Where signals come from.
enum class SignalSource {
  kSystem,
  kInput,  // and, byte by byte, through standard input; its end counts as SIGTERM (see hosts.h)
};

// While it lives, the signals to stop (stop_signals.h), SIGHUP, SIGTSTP and SIGCHLD of this process
// arrive here instead of interrupting, and a write to a closed pipe or socket is an error and no
// signal. Threads made meanwhile inherit that; threads made before must not exist.
class SignalInbox {
 public:
  explicit SignalInbox(SignalSource source = SignalSource::kSystem);
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  int descriptor() const { return descriptor_.get(); }  // readable when take() gives something
  std::optional<int> take();                            // does not block
  bool by_input() const { return by_input_; }           // the last signal to end was
  bool input_open() const { return input_; }            // whoever speaks through it is still there
  const sigset_t& mask_before() const { return before_; }

 private:
  std::optional<int> take_from_input();

  sigset_t before_{};
  FileDescriptor system_;
  FileDescriptor descriptor_;  // of all sources
  bool input_ = false;         // it is one of them
  bool by_input_ = false;
};

}  // namespace daso
