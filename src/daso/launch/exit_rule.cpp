// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/exit_rule.h"

#include <algorithm>
#include <cstring>

#include "daso/base/error.h"

namespace daso {
namespace {

// The end as it counts, or nothing where it does not.
std::optional<RankEnd> counted(RankEnd end, const JobRule& rule) {
  if (!rule.passed_on) return end.asked ? std::nullopt : std::optional(end);
  const bool by_it = end.signal == *rule.passed_on;
  if (by_it || (end.asked && end.signal != 0)) {
    end.signal = 0;
    end.code = by_it && rule.begins_anew ? rule.stopped_exit : kSignalBase + *rule.passed_on;
  }
  return end;
}

}  // namespace

std::string signal_text(int signal) {
  const char* name = ::sigdescr_np(signal);
  return fmt::format("{} ({})", signal, name == nullptr ? "unknown" : name);
}

std::string text(const RankEnd& end) {
  return end.signal != 0 ? fmt::format("was ended by signal {}", signal_text(end.signal))
                         : fmt::format("ended with exit code {}", end.code);
}

JobEnd judge(const std::vector<RankEnd>& ends, const JobRule& rule) {
  const bool any_well =
      std::any_of(ends.begin(), ends.end(), [](const RankEnd& end) { return end.well(); });
  JobEnd job;
  int own_code = kExitOk;  // the first that is neither 0 nor 3, nor says that a rank was stopped
  bool any_peer_error = false;
  const bool finished = rule.keep_survivors && any_well;
  for (const RankEnd& raw : ends) {
    const std::optional<RankEnd> end = counted(raw, rule);
    if (!end) continue;
    const bool left = end->code == rule.stopped_exit && !rule.passed_on;
    if (finished && (end->signal != 0 || end->code == kExitPeer || left)) continue;
    if (end->signal != 0) {
      if (!job.lost) job.lost = end;
    } else if (end->code == kExitPeer) {
      any_peer_error = true;
    } else if (end->code != kExitOk && end->code == rule.stopped_exit) {
      job.stopped = true;
    } else if (end->code != kExitOk && own_code == kExitOk) {
      own_code = end->code;
      const bool by_request = rule.passed_on && end->code == kSignalBase + *rule.passed_on;
      if (!job.lost && !by_request) job.failed = end;
    }
  }
  if (job.stopped && rule.passed_on) any_peer_error = false;
  job.stopped = job.stopped && !job.lost && own_code == kExitOk && !any_peer_error;
  if (job.stopped) {
    job.exit_code = rule.stopped_exit;
  } else {
    job.exit_code = job.lost || (own_code == kExitOk && any_peer_error) ? kExitPeer : own_code;
  }
  return job;
}

RankEnd first_cause(const RankEnd& failed, const std::vector<RankEnd>& ends,
                    const std::vector<int>& leaders) {
  for (const int rank : leaders) {
    const auto end = std::find_if(ends.begin(), ends.end(),
                                  [&](const RankEnd& one) { return one.rank == rank; });
    if (end != ends.end() && !end->well() && end->code != kExitPeer) return *end;
  }
  return failed;
}

}  // namespace daso
