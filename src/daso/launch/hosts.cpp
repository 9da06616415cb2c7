// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/hosts.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/comm/network.h"
#include "daso/launch/exit_rule.h"
#include "daso/launch/guardian.h"
#include "daso/launch/job.h"
#include "daso/launch/output.h"
#include "daso/launch/stop_signals.h"
#include "daso/launch/supervisor.h"

namespace daso {
namespace {

// Below the ports that systems give to whoever connects. The client does not know which are free on
// the first host.
constexpr int kFirstPort = 20000;
constexpr int kPorts = 10000;
// The launchers over there have the time that their ranks are given; we wait a little longer.
constexpr Seconds kForTheWay{5};
constexpr int kSshFailed = 255;  // its own failures; other codes are those of the command

// Through /bin/sh, whatever the user's login shell is.
std::string remote_line(const HostsPlan& plan, const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) command += " " + shell_word(word);
  const std::string missing = fmt::format(
      "daso: {} is not here: the program and the folder {} must be the same on all hosts",
      plan.program, plan.folder);
  return "exec /bin/sh -c " +
         shell_word(
             fmt::format("cd {} || exit {}; test -x {} || {{ echo {} >&2; exit {}; }}; exec{}",
                         shell_word(plan.folder), kExitConfig, shell_word(plan.program),
                         shell_word(missing), kExitConfig, command));
}

// ssh must neither ask anything, since nobody can answer several at once, nor wait without limit.
// What the user has written comes first and wins.
std::vector<std::string> ssh_words(const std::string& ssh) {
  std::vector<std::string> words = split(ssh, ' ');
  std::erase(words, "");
  require(!words.empty(), "--ssh '{}' names no program; leave it out, or write ssh", ssh);
  const std::string& program = words.front();
  if (program.substr(program.rfind('/') + 1) == "ssh") {
    for (const char* option : {"BatchMode=yes", "ConnectTimeout=20", "ServerAliveInterval=10"}) {
      words.insert(words.end(), {"-o", option});
    }
  }
  return words;
}

std::uint16_t some_port() {
  std::uint16_t number = 0;
  DASO_ASSERT(::getrandom(&number, sizeof number, 0) == sizeof number);
  return static_cast<std::uint16_t>(kFirstPort + number % kPorts);
}

HostsPlan plan_for(const LaunchFlags& flags, const LaunchOptions& options,
                   const std::vector<std::string>& arguments) {
  HostsPlan plan{.program = own_program().string(),
                 .folder = current_folder().string(),
                 .arguments = arguments};
  if (flags.rendezvous.empty()) {
    std::vector<std::string> places;
    for (const std::string& host : flags.hosts) {
      places.push_back(Address{host.substr(host.find('@') + 1), some_port()}.text());
    }
    // Launchers that survive each other have a place each.
    plan.rendezvous = flags.survival ? join(places, ",") : places.front();
  }
  if (flags.job_token.empty()) {
    plan.job_token = options.job_token.empty() ? make_token() : options.job_token;
  }
  return plan;
}

// The hosts' launchers have told the rest.
std::string why_unreachable(const std::string& host, const RankEnd& end, const LastLines& said) {
  const std::string words = said.lines().empty()
                                ? "it said nothing, as when the command there is killed"
                                : said.lines().back();
  return fmt::format(
      "daso: host {} could not be reached or was lost: ssh {}: {}; check that 'ssh {} true' works "
      "without a password\n",
      host, text(end), words, host);
}

bool ssh_failed(const RankEnd& end) {
  return !end.asked && (end.signal != 0 || end.code == kSshFailed);
}

}  // namespace

std::vector<std::string> host_call(const LaunchFlags& flags, const HostsPlan& plan, int node,
                                   int columns) {
  std::vector<std::string> words = {plan.program};
  if (columns > 0)
    words.insert(words.begin(), {"env", fmt::format("{}={}", kColumnsVariable, columns)});
  // Before the program of somebody else, which stands after --.
  const auto end = std::find(plan.arguments.begin(), plan.arguments.end(), "--");
  words.insert(words.end(), plan.arguments.begin(), end);
  words.insert(words.end(), {"--node-index", std::to_string(node)});
  if (!plan.rendezvous.empty()) words.insert(words.end(), {"--rendezvous", plan.rendezvous});
  if (!plan.job_token.empty()) words.insert(words.end(), {"--job-token-file", "-"});
  words.insert(words.end(), end, plan.arguments.end());

  std::vector<std::string> call = ssh_words(flags.ssh);
  call.push_back(flags.hosts[static_cast<std::size_t>(node)]);
  call.push_back(remote_line(plan, words));
  return call;
}

int launch_on_hosts(const LaunchFlags& flags, Shape shape,
                    const std::vector<std::string>& arguments) {
  const LaunchOptions options = launch_options(flags, shape);
  require(flags.cluster.empty(), "--hosts and --cluster {} name two kinds of nodes; leave one out",
          flags.cluster);
  require(flags.backend != "mpi",
          "--backend mpi is started on other hosts by mpirun: mpirun --host {} ...",
          join(flags.hosts, ","));
  const HostsPlan plan = plan_for(flags, options, arguments);

  SignalInbox signals;
  const Guardian guardian(std::max(options.grace, options.time_to_save));
  Sink output(STDOUT_FILENO);
  Sink error(STDERR_FILENO);
  std::vector<LastLines> said(flags.hosts.size());
  std::deque<LineStream> lines;
  const bool drawing = terminal_columns() && ::isatty(STDERR_FILENO) != 0;
  const auto say_signal = [&](int signal) {
    const bool saves = options.time_to_save > Seconds(0);
    error.add(fmt::format("{}daso: {}\n", drawing ? "\033[K" : "",
                          saves ? saving_notice(signal) : ending_notice(signal)));
  };
  Supervisor supervisor({.grace = options.grace + kForTheWay,
                         .time_to_save = options.time_to_save + kForTheWay,
                         .stopped_exit = options.stopped_exit,
                         .keep_survivors = options.survival.has_value(),
                         .on_signal = say_signal},
                        signals, {&output, &error});
  const auto pass_on = [&](FileDescriptor from, LineStream::Options to) {
    LineStream& stream = lines.emplace_back(std::move(to));
    supervisor.add_stream(
        std::move(from), [&stream](std::string_view bytes) { stream.feed(bytes); },
        [&stream] { stream.finish(); });
  };
  for (std::size_t i = 0; i < flags.hosts.size(); ++i) {
    const int columns = i == 0 ? terminal_columns().value_or(0) : 0;
    const std::vector<std::string> call = host_call(flags, plan, static_cast<int>(i), columns);
    ChildProcess ssh({.path = find_program(call.front(), this_environment()),
                      .arguments = call,
                      .environment = this_environment(),
                      .signals_by_input = true},
                     signals.mask_before(), guardian.descriptor());
    // Not by a flag, which ps would show to everybody over there.
    if (!plan.job_token.empty()) ssh.write(plan.job_token + "\n");
    const std::string prefix = flags.hosts[i] + ": ";
    // Rank 0's output is to be read by programs.
    pass_on(ssh.take_output(), {i == 0 ? &output : &error, nullptr, i == 0 ? "" : prefix});
    pass_on(ssh.take_error(), {&error, &said[i], prefix});
    supervisor.add_process(static_cast<int>(i), std::move(ssh));
  }
  supervisor.run();

  std::vector<RankEnd> ends = supervisor.ends();
  for (RankEnd& end : ends) {
    if (!ssh_failed(end)) continue;
    const auto host = static_cast<std::size_t>(end.rank);
    error.add(why_unreachable(flags.hosts[host], end, said[host]));
    end.code = kExitPeer;
  }
  const JobEnd job = judge(ends, supervisor.rule());
  supervisor.flush();
  return job.exit_code;
}

}  // namespace daso
