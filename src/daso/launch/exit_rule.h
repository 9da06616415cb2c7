// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daso/base/error.h"

// From the ends of the ranks to the end of the job. Pure: the launcher gathers, this decides.
namespace daso {

struct RankEnd {
  int rank = 0;
  int code = 0;        // its exit code, where no signal ended it
  int signal = 0;      // the signal that ended it; 0: none
  bool asked = false;  // it was still there when the launcher told the ranks to end

  bool well() const { return signal == 0 && code == 0; }
  bool operator==(const RankEnd&) const = default;
};

inline constexpr int kSignalBase = 128;  // a shell's exit code for a signal is this + signal

// "was ended by signal 9 (Killed)" or "ended with exit code 1".
std::string text(const RankEnd& end);
// "9 (Killed)".
std::string signal_text(int signal);

// What the launcher knows besides the ends.
struct JobRule {
  std::optional<int> passed_on;     // the first signal that the launcher got itself and passed on
  int stopped_exit = kExitStopped;  // by which a rank says that it was stopped and can go on
  bool begins_anew = false;         // a rank that is ended by the signal had nothing to save yet
  bool keep_survivors = false;
};

struct JobEnd {
  int exit_code = 0;
  bool stopped = false;           // and no more: the job can go on
  std::optional<RankEnd> lost;    // the first rank that a signal ended
  std::optional<RankEnd> failed;  // the rank that failed first, if it did so with a code of its own
};

// `ends` in the order in which they happened. A rank that the signal passed on ends, or that had to
// be killed afterwards, is none that was lost; it counts like a shell counts it, as code 128 +
// signal, or, where it begins anew, as stopped. Without such a signal a rank that was asked to end
// was asked because another had failed, and says nothing about the job. Ranks that only miss one
// that was stopped by the signal are stopped as well.
//
// With keep_survivors ranks that were lost, or that have left by a signal of their own, do not
// count as long as any other rank ended well.
JobEnd judge(const std::vector<RankEnd>& ends, const JobRule& rule);

// The end to name where a job has failed. `leaders` are the ranks that reported an error of their
// own, in that order: the first of them that ended by it had the cause. The ranks that it took
// along may end before it, so `failed` of the judgement counts only where nobody has spoken.
RankEnd first_cause(const RankEnd& failed, const std::vector<RankEnd>& ends,
                    const std::vector<int>& leaders);

}  // namespace daso
