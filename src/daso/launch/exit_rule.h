// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

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

// "was ended by signal 9 (Killed)" or "ended with exit code 1".
std::string text(const RankEnd& end);
// "9 (Killed)".
std::string signal_text(int signal);

struct JobEnd {
  int exit_code = 0;
  std::optional<RankEnd> lost;    // the first rank that a signal ended
  std::optional<RankEnd> failed;  // the rank that failed first, if it did so with a code of its own
};

// `ends` in the order in which they happened. `passed_on` is the first signal that the launcher got
// itself and passed on: a rank that it ends, or that had to be killed afterwards, is none that was
// lost; it counts like a shell counts it, as code 128 + signal. Without it a rank that was asked to
// end was asked because another had failed, and says nothing about the job.
//
// With keep_survivors lost ranks do not count as long as any other rank ended well.
JobEnd judge(const std::vector<RankEnd>& ends, std::optional<int> passed_on, bool keep_survivors);

// The end to name where a job has failed. `leaders` are the ranks that reported an error of their
// own, in that order: the first of them that ended by it had the cause. The ranks that it took
// along may end before it, so `failed` of the judgement counts only where nobody has spoken.
RankEnd first_cause(const RankEnd& failed, const std::vector<RankEnd>& ends,
                    const std::vector<int>& leaders);

}  // namespace daso
