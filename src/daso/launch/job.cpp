// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/job.h"

#include <fmt/ranges.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "daso/base/error.h"
#include "daso/base/standard_streams.h"
#include "daso/launch/stop_signals.h"

namespace daso {

std::string make_token() {
  std::array<unsigned char, 16> bytes{};
  DASO_ASSERT(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

namespace {

// Launchers that know nothing of each other cannot make up the same one.
std::string token_for(const LaunchOptions& options) {
  const bool several = options.node_index && options.ranks_per_node.size() > 1;
  return options.job_token.empty() && !several ? make_token() : options.job_token;
}

std::vector<ClusterNode> cluster_for(const LaunchOptions& options) {
  if (options.cluster.empty()) return {};
  return open_cluster(options.cluster, static_cast<int>(options.ranks_per_node.size()));
}

}  // namespace

Job::Job(const LaunchOptions& options, Hooks hooks)
    : options_(options),
      spots_(own_spots(options)),
      cluster_(cluster_for(options)),
      signals_(options.signal_source),
      guardian_(std::max(options.grace, options.time_to_save)),
      store_(options, cluster_.empty() ? nullptr : &cluster_.front()),
      address_{store_.address(), token_for(options)},
      terminal_(::isatty(STDOUT_FILENO) != 0),
      fresh_line_(options.columns && ::isatty(STDERR_FILENO) != 0 ? "\033[K" : ""),
      output_(STDOUT_FILENO),
      error_(STDERR_FILENO),
      supervisor_({.grace = options.grace,
                   .time_to_save = options.time_to_save,
                   .stopped_exit = options.stopped_exit,
                   .keep_survivors = options.keep_survivors,
                   .on_bad_end = [this](const RankEnd& end) { on_bad_end(end); },
                   .takes_signal = std::move(hooks.takes_signal),
                   .on_signal = [this](int signal) { on_signal(signal); },
                   .takes_end = std::move(hooks.takes_end),
                   .on_turn = hooks.on_turn ? std::move(hooks.on_turn) : beats()},
                  signals_, {&output_, &error_}) {}

// What the turns of a job without hooks are for.
std::function<SupervisorOptions::Turn()> Job::beats() {
  if (!options_.keep_survivors) return {};
  return [this] { return SupervisorOptions::Turn{.again = store_.beat()}; };
}

const Namespaces* Job::home_of(const RankSpot& spot) const {
  if (cluster_.empty()) return nullptr;
  return &cluster_[static_cast<std::size_t>(spot.node)].namespaces;
}

void Job::listen_to(const RankSpot& spot, FileDescriptor output, FileDescriptor error) {
  Printed& printed = printed_[spot.rank];
  if (spot.rank == 0 && options_.columns) {
    // A drawing is not worth keeping.
    pass_on(std::move(output), {&output_, nullptr, ""});
  } else if (terminal_) {
    pass_on(std::move(output), {&output_, &printed.output, spot.prefix()});
  } else if (spot.rank == 0 || options_.one_voice) {
    pass_on(std::move(output), {&output_, &printed.output, ""});
  } else {
    pass_on(std::move(output), {&error_, &printed.output, spot.prefix()});
  }
  pass_on(std::move(error), {&error_, &printed.error, spot.prefix(), &error_lines_, spot.rank});
}

void Job::pass_on(FileDescriptor from, LineStream::Options options) {
  // It goes with the stream: a rank that is started again brings another.
  const auto lines = std::make_shared<LineStream>(std::move(options));
  supervisor_.add_stream(
      std::move(from), [lines](std::string_view bytes) { lines->feed(bytes); },
      [lines] { lines->finish(); });
}

void Job::run() {
  store_.open(address_.token);
  supervisor_.run();
}

RankEnd Job::as_meant(RankEnd end) const {
  const bool failed = end.signal == 0 && end.code == kExitBug;
  if (failed && error_lines_.peer_error(end.rank)) end.code = kExitPeer;
  return end;
}

int Job::finish(std::vector<RankEnd> ends) {
  for (RankEnd& end : ends) end = as_meant(end);
  const JobEnd job = judge(ends, supervisor_.rule());
  explain(ends, job);
  int code = job.exit_code;
  // After a failure the others learn of it within a second or are out of reach.
  const Seconds patience = job.exit_code == kExitOk ? options_.limit : options_.grace;
  const std::optional<int> silent =
      store_.leave(patience, [this](Seconds moment) { return supervisor_.turn(moment); });
  if (silent) {
    // Its ranks may have ended well, or have been told to stop by its guardian: a node is lost. If
    // it was us who were told to stop, it may not have been there yet.
    const bool told = supervisor_.rule().passed_on.has_value();
    const bool well = code == kExitOk || (job.stopped && !told);
    if (well && !options_.keep_survivors) code = kExitPeer;
    // Who told us over ssh sees how all nodes end.
    if (!told || !signals_.by_input()) {
      say(fmt::format(
          "the launcher of node {} has not said within {} s that its ranks have ended; the job "
          "ends with exit code {}",
          *silent, patience.count(), code));
    }
  }
  supervisor_.flush();
  if (output_.lost() == 0) return code;
  say(lost_output(output_.lost()));
  supervisor_.flush();
  return code == kExitOk ? kExitBug : code;
}

void Job::say(const std::string& line) { error_.add(fresh_line_ + "daso: " + line + "\n"); }

void Job::on_bad_end(const RankEnd& end) {
  if (options_.backend == "mpi") return;  // mpirun ends the others itself
  store_.report(end);
  if (options_.keep_survivors)
    say(fmt::format("{} {}; the others go on", name_of(end.rank), text(end)));
}

void Job::on_signal(int signal) {
  if (signals_.by_input()) return;  // once for all hosts, it is said where it came from
  const bool saves = options_.time_to_save > Seconds(0);
  say(saves ? saving_notice(signal) : ending_notice(signal));
}

void Job::explain(const std::vector<RankEnd>& ends, const JobEnd& job) {
  if (job.failed) {
    const RankEnd cause = first_cause(*job.failed, ends, error_lines_.leaders());
    if (!job.lost || cause.rank != job.lost->rank) explain_failed(cause, job.exit_code);
  }
  if (job.lost) explain_lost(*job.lost, job.exit_code);
  if (supervisor_.rule().passed_on && supervisor_.killed()) {
    say("ranks that did not end after the signal were killed");
  }
  if (job.failed || job.lost || job.exit_code != kExitPeer) return;
  // No rank is to blame that we know of, so those that noticed have the word.
  if (error_lines_.lost_peer()) {
    error_.add(*error_lines_.lost_peer() + "\n");
    return;
  }
  const auto first = std::find_if(ends.begin(), ends.end(),
                                  [](const RankEnd& end) { return end.code == kExitPeer; });
  if (first != ends.end()) say(fmt::format("{} {}", name_of(first->rank), text(*first)));
}

void Job::explain_failed(const RankEnd& end, int exit_code) {
  const std::string name = name_of(end.rank);
  if (error_lines_.shown(end.rank)) {
    say(fmt::format("{} failed, see its line above; the job ends with exit code {}", name,
                    exit_code));
    return;
  }
  // The rank that said it first belongs to another launcher.
  if (const std::optional<std::string> reason = error_lines_.held_back(end.rank)) {
    say(fmt::format("{} {}: {}", name, text(end), *reason));
    return;
  }
  const Printed& printed = printed_[end.rank];
  const LastLines& last = printed.error.lines().empty() ? printed.output : printed.error;
  say(fmt::format("{} {}{}", name, text(end),
                  last.lines().empty() ? " and had printed nothing" : "; its last lines:"));
  show(last);
}

void Job::explain_lost(const RankEnd& end, int exit_code) {
  // What a crash says of itself stands on standard error.
  const LastLines last = error_lines_.shown(end.rank) ? LastLines() : printed_[end.rank].error;
  say(fmt::format("{} {}; the job ends with exit code {}{}", name_of(end.rank), text(end),
                  exit_code, last.lines().empty() ? "" : "; its last lines:"));
  show(last);
}

void Job::show(const LastLines& last) {
  for (const std::string& line : last.lines()) error_.add("    " + line + "\n");
}

std::string Job::name_of(int rank) const {
  const auto spot = std::find_if(spots_.begin(), spots_.end(),
                                 [&](const RankSpot& one) { return one.rank == rank; });
  return spot == spots_.end() ? "mpirun" : spot->text();
}

}  // namespace daso
