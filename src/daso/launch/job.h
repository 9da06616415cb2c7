// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daso/launch/cluster.h"
#include "daso/launch/exit_rule.h"
#include "daso/launch/guardian.h"
#include "daso/launch/job_store.h"
#include "daso/launch/launch_plan.h"
#include "daso/launch/output.h"
#include "daso/launch/signal_inbox.h"
#include "daso/launch/supervisor.h"

namespace daso {

// By which a job's ranks know each other.
std::string make_token();

// What the two ways to start ranks (ourselves, through mpirun) have in common: everything around
// the ranks, and what is said about them at the end.
class Job {
 public:
  // The hooks are a supervisor's own.
  struct Hooks {
    std::function<bool(const RankEnd&)> takes_end;
    std::function<SupervisorOptions::Turn()> on_turn;
    std::function<bool(int signal)> takes_signal;
  };
  explicit Job(const LaunchOptions& options, Hooks hooks = {});

  const std::vector<RankSpot>& spots() const { return spots_; }
  const JobAddress& address() const { return address_; }
  // Where a rank is to run; none: here.
  const Namespaces* home_of(const RankSpot& spot) const;
  const sigset_t& mask() const { return signals_.mask_before(); }
  int announce_to() const { return guardian_.descriptor(); }
  Supervisor& supervisor() { return supervisor_; }

  // Passes on what a rank prints. On a terminal every line has the rank's prefix. Otherwise
  // standard output is rank 0's alone (or that of whoever speaks), as it is, so that it can be read
  // by programs; everything else goes to standard error.
  void listen_to(const RankSpot& spot, FileDescriptor output, FileDescriptor error);

  // Serves the ranks until all have ended.
  void run();
  // Says what went wrong, if anything did, and gives the job's exit code.
  int finish(std::vector<RankEnd> ends);
  // Ranks have gone on in this view.
  void begin_view(std::int64_t number) { store_.begin_view(number); }
  // A line of our own on standard error.
  void say(const std::string& line);
  std::string name_of(int rank) const;
  // Why a rank has ended, if it said so and that was not shown.
  std::optional<std::string> reason_of(int rank) const { return error_lines_.held_back(rank); }
  // An uncaught exception ends a Python program with code 1, whatever it is: this one with that of
  // a lost peer, if the program has said that it was one.
  RankEnd as_meant(RankEnd end) const;
  // The last signal came from one who tells all launchers (hosts.h).
  bool all_are_told() const { return signals_.by_input() && signals_.input_open(); }
  // Another program's words on standard error.
  void quote(const std::string& text) { error_.add(text); }

 private:
  struct Printed {
    LastLines output;
    LastLines error;
  };

  std::function<SupervisorOptions::Turn()> beats();
  void pass_on(FileDescriptor from, LineStream::Options options);
  void on_bad_end(const RankEnd& end);
  void on_signal(int signal);
  void explain(const std::vector<RankEnd>& ends, const JobEnd& job);
  void explain_failed(const RankEnd& end, int exit_code);
  void explain_lost(const RankEnd& end, int exit_code);
  void show(const LastLines& last);

  const LaunchOptions& options_;
  std::vector<RankSpot> spots_;
  std::vector<ClusterNode> cluster_;  // by node; empty: on this machine itself
  SignalInbox signals_;
  Guardian guardian_;
  JobStore store_;
  JobAddress address_;
  const bool terminal_;
  const std::string fresh_line_;  // clears what rank 0 may have drawn
  Sink output_;
  Sink error_;
  std::map<int, Printed> printed_;  // by rank
  ErrorLines error_lines_;
  Supervisor supervisor_;  // the last, so that the ranks go first
};

}  // namespace daso
