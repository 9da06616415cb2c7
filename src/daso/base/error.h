// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>

// base is what every other layer stands on and knows nothing of ranks, tensors or LibTorch: errors
// (here), text, time and limits (seconds), the environment as a value, files that are written whole
// (output_file), calls that may hang (abandonable, disk), threads (worker), random numbers, facts
// of the machine (cpu, large_pages, process_limits), standard streams, and what happened when
// (timeline).
//
// The kinds of failure and the way out each of them takes; docs/errors.md is the user's view.
namespace daso {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Yours to mend: a flag, a file, a call that does not fit its peers. Starting again changes
// nothing.
struct ConfigError : Error {
  using Error::Error;
};

// A rank is gone or late. Starting again, or going on without it, may help.
struct PeerError : Error {
  using Error::Error;
};

inline constexpr int kExitOk = 0;
inline constexpr int kExitBug = 1;  // also: a check that failed, a run that diverged
inline constexpr int kExitConfig = 2;
inline constexpr int kExitPeer = 3;
inline constexpr int kExitStopped = 75;  // told to stop, can go on: EX_TEMPFAIL of sysexits.h

// How the line begins by which a rank reports a PeerError: mostly the echo of another rank's end,
// so a launcher that knows the cause need not show it.
inline constexpr const char* kLostPeerMark = "daso: lost peer: ";

int exit_code_of(const std::exception& error);

// Refuses wrong input: what was asked, what was found, what to do.
template <typename... Args>
void require(bool holds, fmt::format_string<Args...> message, Args&&... args) {
  if (!holds) throw ConfigError(fmt::format(message, std::forward<Args>(args)...));
}

// A broken invariant is a bug: throws std::logic_error with the place. Stays on in release.
void assert_that(bool holds, const char* condition,
                 std::source_location where = std::source_location::current());

}  // namespace daso

#define DASO_ASSERT(condition) ::daso::assert_that((condition), #condition)
