// SPDX-License-Identifier: Apache-2.0
#include "daso/base/standard_streams.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "daso/base/error.h"

namespace daso {
namespace {

constexpr int kUnknown = -1;

// The reason, as an errno; 0: nothing was lost. Like the stream that it belongs to, there is one in
// a process.
std::atomic<int> lost{0};

}  // namespace

void hold_standard_streams() {
  // The lowest free number is taken, so in this order each gets its own. Open for the wrong
  // direction: whoever uses it gets an error, as if it were still closed.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    const int held = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (held >= 0 && held != stream) ::close(held);
  }
}

void flush_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  // A print that failed before has left no more than a mark on the stream.
  const int error = errno == 0 ? kUnknown : errno;
  if (error != EPIPE) lost = error;
  // What is left in the buffer would make the next print throw.
  ::__fpurge(stdout);
  std::clearerr(stdout);
}

std::string lost_output(int error) {
  return fmt::format("standard output could not be written{}; what was printed is lost",
                     error > 0 ? fmt::format(" ({})", std::strerror(error)) : "");
}

int checked_output(int code) {
  flush_output();
  const int error = lost.exchange(0);
  if (error == 0) return code;
  fmt::print(stderr, "daso: {}\n", lost_output(error));
  return code == kExitOk ? kExitBug : code;
}

}  // namespace daso
