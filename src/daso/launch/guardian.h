// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"

namespace daso {

// A process beside the launcher that ends the ranks when the launcher itself is killed and cannot.
// It learns the ranks' process groups through a pipe (one number a line) and notices the launcher's
// end by the end of the pipe.
//
// To be made while the process has one thread and nothing open that must not be held open
// elsewhere. The destructor is the orderly end: nobody is signalled.
class Guardian {
 public:
  // `grace` lies between SIGTERM and SIGKILL: time to save, where ranks do.
  explicit Guardian(Seconds grace);
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;
  ~Guardian();

  // Takes the numbers. Whoever holds it open keeps the guardian waiting.
  int descriptor() const { return pipe_.get(); }

 private:
  FileDescriptor pipe_;
  pid_t pid_;
};

}  // namespace daso
