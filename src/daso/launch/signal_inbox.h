// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <optional>

#include "daso/base/file_descriptor.h"

namespace daso {

// While it lives, the signals to stop (stop_signals.h), SIGHUP, SIGTSTP and SIGCHLD of this process
// arrive here instead of interrupting, and a write to a closed pipe or socket is an error and no
// signal. Threads made meanwhile inherit that; threads made before must not exist.
class SignalInbox {
 public:
  SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;
  ~SignalInbox();

  int descriptor() const { return descriptor_.get(); }  // readable when take() gives something
  std::optional<int> take();                            // does not block
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t before_{};
  FileDescriptor descriptor_;
};

}  // namespace daso
