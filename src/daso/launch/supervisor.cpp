// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/supervisor.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "daso/base/error.h"
#include "daso/launch/stop_signals.h"

namespace daso {
namespace {

// To end after another's failure, before we ask. The rank that had the cause may be the last: it
// leaves a checkpoint that is being written to itself after a second, then tells.
constexpr Seconds kTimeForThemselves{3};
constexpr Seconds kTimeForLastWords{1};  // for output after all processes have ended
constexpr Seconds kLongestTurn{60};

}  // namespace

Supervisor::Supervisor(SupervisorOptions options, SignalInbox& signals, std::vector<Sink*> sinks)
    : options_(std::move(options)), signals_(signals), sinks_(std::move(sinks)) {}

void Supervisor::add_process(int rank, ChildProcess process) {
  processes_.push_back({.rank = rank, .child = std::move(process)});
}

void Supervisor::add_stream(FileDescriptor stream, std::function<void(std::string_view)> on_bytes,
                            std::function<void()> on_end) {
  streams_.push_back({std::move(stream), std::move(on_bytes), std::move(on_end)});
}

void Supervisor::run() {
  look_at_processes();  // one may have ended before we listened
  while (!all_ended()) turn(kLongestTurn);
  next_.reset();
  // A process that left its group may hold a pipe open for good; a slow reader is not to blame.
  Deadline quiet(kTimeForLastWords);
  while (!streams_.empty() && !quiet.passed()) {
    if (turn(quiet.left())) break;
    if (sinks_wait()) quiet = Deadline(kTimeForLastWords);
  }
  for (const Stream& stream : streams_) stream.on_end();
  streams_.clear();
}

void Supervisor::flush() {
  while (sinks_wait()) {
    if (turn(kLongestTurn)) return;
  }
}

bool Supervisor::turn(Seconds at_most) {
  std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}};
  for (const Sink* sink : sinks_) {
    // poll() skips negative descriptors.
    polled.push_back({sink->waiting() ? sink->descriptor() : -1, POLLOUT, 0});
  }
  const std::size_t first_stream = polled.size();
  const std::size_t streams = sinks_wait() ? 0 : streams_.size();
  for (std::size_t i = 0; i < streams; ++i) {
    polled.push_back({streams_[i].descriptor.get(), POLLIN, 0});
  }
  if (next_) at_most = std::min(at_most, next_->left());
  if (options_.on_turn) {
    const SupervisorOptions::Turn turn = options_.on_turn();
    at_most = std::min(at_most, turn.again);
    // The job may be over now, which is for the caller to see.
    if (std::exchange(more_to_come_, turn.more_to_come) && !turn.more_to_come) at_most = Seconds(0);
  }
  const auto wait = static_cast<int>(whole_milliseconds(at_most).count());
  if (::poll(polled.data(), polled.size(), wait) < 0) return false;  // interrupted: another turn

  bool told_to_end = false;
  for (std::optional<int> signal; (signal = signals_.take());) {
    if (*signal == SIGCHLD) continue;
    if (*signal == SIGTSTP) {
      stand_still();
      continue;
    }
    told_to_end = on_signal(*signal) || told_to_end;
  }
  for (std::size_t i = 0; i < sinks_.size(); ++i) {
    if (polled[1 + i].revents != 0) sinks_[i]->write_some();
  }
  for (std::size_t i = 0; i < streams; ++i) {
    if (polled[first_stream + i].revents != 0) read_from(streams_[i]);
  }
  look_at_processes();
  std::erase_if(streams_, [](const Stream& stream) { return !stream.descriptor.open(); });
  on_clock();
  return told_to_end;
}

bool Supervisor::all_ended() {
  // What has just ended may be started again.
  if (options_.on_turn) more_to_come_ = options_.on_turn().more_to_come;
  return !more_to_come_ && std::all_of(processes_.begin(), processes_.end(),
                                       [](const auto& one) { return one.ended; });
}

void Supervisor::kill_process(int rank) {
  for (Process& process : processes_) {
    if (process.rank == rank && !process.ended) process.child.send(SIGKILL);
  }
}

bool Supervisor::sinks_wait() const {
  return std::any_of(sinks_.begin(), sinks_.end(),
                     [](const Sink* sink) { return sink->waiting(); });
}

void Supervisor::look_at_processes() {
  for (Process& process : processes_) {
    if (process.ended) continue;
    const std::optional<ProcessEnd>& end = process.child.look();
    if (!end) continue;
    process.ended = true;
    if (options_.takes_end) read_what_is_there();  // how it ended may be among its last words
    const RankEnd how{process.rank, end->code, end->signal, process.asked};
    process.forgotten = options_.takes_end && options_.takes_end(how);
    if (!process.forgotten) on_end(how);
  }
  std::erase_if(processes_, [](const Process& process) { return process.forgotten; });
}

JobRule Supervisor::rule() const {
  return {.passed_on = passed_on_,
          .stopped_exit = options_.stopped_exit,
          .begins_anew = options_.time_to_save > Seconds(0),
          .keep_survivors = options_.keep_survivors};
}

void Supervisor::on_end(const RankEnd& end) {
  ends_.push_back(end);
  JobRule rule_of_one = rule();
  rule_of_one.keep_survivors = false;
  const JobEnd alone = judge({end}, rule_of_one);
  // Not bad: it ended well, or as the signal that we passed on makes it end. One that another's
  // signal has stopped takes the others along, or leaves them waiting for it.
  const bool stopped_alone = alone.stopped && !passed_on_;
  const bool bad = alone.lost || alone.failed || alone.exit_code == kExitPeer || stopped_alone;
  if (!bad || end.asked) return;
  if (options_.on_bad_end) options_.on_bad_end(end);
  if (options_.keep_survivors || stage_ != Stage::kRunning) return;
  stage_ = Stage::kOneFailed;
  next_ = Deadline(kTimeForThemselves);
}

bool Supervisor::on_signal(int signal) {
  if (passed_on_ && since(passed_on_at_) < kSameSignal) return false;
  if (stage_ == Stage::kAsked || stage_ == Stage::kKilled) {
    tell(SIGKILL, /*asked=*/true);
    stage_ = Stage::kKilled;
    next_.reset();
    return true;
  }
  ask_to_end(signal);
  if (!options_.takes_signal || !options_.takes_signal(signal)) pass_on();
  return true;
}

void Supervisor::ask_to_end(int signal) {
  passed_on_ = signal;
  passed_on_at_ = Clock::now();
  stage_ = Stage::kAsked;
  next_ = Deadline(std::max(options_.grace, options_.time_to_save));
}

void Supervisor::stop(int signal) {
  ask_to_end(signal);
  tell(signal, /*asked=*/false);
}

void Supervisor::pass_on() {
  tell(*passed_on_, /*asked=*/false);
  if (options_.on_signal) options_.on_signal(*passed_on_);
}

// Ctrl-Z. The ranks stop before us and go on after us, so that none misses the store that we serve.
void Supervisor::stand_still() {
  const std::optional<Seconds> left = next_ ? std::optional(next_->left()) : std::nullopt;
  tell(SIGSTOP, /*asked=*/false);
  // By its own signal: the system drops it where no shell could let us go on (ssh -t, docker exec).
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // stands still here, until SIGCONT
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  tell(SIGCONT, /*asked=*/false);
  if (left) next_ = Deadline(*left);
}

void Supervisor::on_clock() {
  if (!next_ || !next_->passed()) return;
  if (stage_ == Stage::kOneFailed) {
    tell(SIGTERM, /*asked=*/true);
    stage_ = Stage::kAsked;
    next_ = Deadline(options_.grace);
  } else {
    tell(SIGKILL, /*asked=*/true);
    stage_ = Stage::kKilled;
    next_.reset();
  }
}

void Supervisor::tell(int signal, bool asked) {
  for (Process& process : processes_) {
    if (process.ended) continue;
    process.asked = process.asked || asked;
    process.child.send(signal);
  }
}

void Supervisor::read_what_is_there() {
  constexpr int kReads = 16;  // of as many bytes as a pipe holds: another may never stop printing
  for (Stream& stream : streams_) {
    for (int i = 0; i < kReads && stream.descriptor.open(); ++i) {
      pollfd polled{stream.descriptor.get(), POLLIN, 0};
      if (::poll(&polled, 1, 0) <= 0) break;
      read_from(stream);
    }
  }
}

void Supervisor::read_from(Stream& stream) {
  static constexpr std::size_t kBytes = 1 << 16;
  std::array<char, kBytes> bytes;
  const ssize_t count = ::read(stream.descriptor.get(), bytes.data(), bytes.size());
  if (count > 0) {
    stream.on_bytes({bytes.data(), static_cast<std::size_t>(count)});
  } else if (count == 0 || (errno != EINTR && errno != EAGAIN)) {
    stream.on_end();
    stream.descriptor.close();
  }
}

}  // namespace daso
