// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string_view>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/launch/child_process.h"
#include "daso/launch/exit_rule.h"
#include "daso/launch/output.h"
#include "daso/launch/signal_inbox.h"

namespace daso {

struct SupervisorOptions {
  Seconds grace{5};                 // from asking a process to end to killing it
  Seconds time_to_save{0};          // instead, if longer, after a signal that came to us
  int stopped_exit = kExitStopped;  // see JobRule
  bool keep_survivors = false;      // the end of one does not end the others
  // Called when a process has ended badly, and not because it was told to.
  std::function<void(const RankEnd&)> on_bad_end;
  // Called at the first signal to end. True: the processes are to end in another way, within the
  // same time; pass_on() tells them yet.
  std::function<bool(int signal)> takes_signal;
  // Called when it has been passed on.
  std::function<void(int signal)> on_signal;
  // Called when any process has ended. True: it does not count, and is forgotten.
  std::function<bool(const RankEnd&)> takes_end;
  // Called in every turn, for what is due by another clock.
  struct Turn {
    Seconds again{60};          // when to call again
    bool more_to_come = false;  // the job is not over, though all processes may have ended
  };
  std::function<Turn()> on_turn;
};

// Looks after running processes until all have ended: one loop over signals, ends, output and the
// clock, in one thread.
class Supervisor {
 public:
  Supervisor(SupervisorOptions options, SignalInbox& signals, std::vector<Sink*> sinks);

  void add_process(int rank, ChildProcess process);
  void add_stream(FileDescriptor stream, std::function<void(std::string_view)> on_bytes,
                  std::function<void()> on_end);
  ChildProcess& first_process() { return processes_.front().child; }
  // At once, whatever it does.
  void kill_process(int rank);
  // Tells the processes of the signal that was taken.
  void pass_on();
  // As if this signal had come to us, and nobody had taken it.
  void stop(int signal);

  // Returns when all processes have ended and all they printed is in the sinks.
  void run();
  // Empties the sinks; a signal ends the wait for a reader that does not read.
  void flush();
  // One turn of the loop; true if a signal to end came. For what else waits in the same thread.
  bool turn(Seconds at_most);

  const std::vector<RankEnd>& ends() const { return ends_; }  // in the order they happened
  JobRule rule() const;                                       // by which these ends are judged
  bool killed() const { return stage_ == Stage::kKilled; }    // the grace time was not enough

 private:
  struct Process {
    int rank;
    ChildProcess child;
    bool asked = false;
    bool ended = false;
    bool forgotten = false;
  };
  struct Stream {
    FileDescriptor descriptor;
    std::function<void(std::string_view)> on_bytes;
    std::function<void()> on_end;
  };
  enum class Stage { kRunning, kOneFailed, kAsked, kKilled };

  bool all_ended();
  bool sinks_wait() const;
  void look_at_processes();
  void on_end(const RankEnd& end);
  bool on_signal(int signal);  // false: it is one with the signal before
  void ask_to_end(int signal);
  void stand_still();
  void on_clock();
  void tell(int signal, bool asked);
  void read_what_is_there();
  void read_from(Stream& stream);

  SupervisorOptions options_;
  SignalInbox& signals_;
  std::vector<Sink*> sinks_;
  std::list<Process> processes_;
  std::vector<Stream> streams_;
  std::vector<RankEnd> ends_;
  Stage stage_ = Stage::kRunning;
  std::optional<Deadline> next_;  // when the stage is over
  bool more_to_come_ = false;     // on_turn says so
  std::optional<int> passed_on_;
  Clock::time_point passed_on_at_;
};

}  // namespace daso
