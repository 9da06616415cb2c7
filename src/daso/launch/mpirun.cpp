// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/mpirun.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/place.h"

namespace daso {
namespace {

constexpr int kLastSignal = 64;

// The shell around one rank. It stays, to tell how the program ended, and gets the program's
// signals as well, being of the same process group: it hears them, so that it outlives the program,
// and the program finds them as they were.
std::string shell_script(const MpirunPipes& pipes, const RankSpot& spot, std::size_t index) {
  const auto pipe = [&](int descriptor) {
    return fmt::format("/proc/{}/fd/{}", pipes.launcher, descriptor);
  };
  return fmt::format(
      "exec 3>{} 4>{} 5>{} && echo $$ >{} && echo \"group $$\" >&3 || exit 127\n"
      "exec 2>/dev/null\n"
      "trap : INT TERM USR1\n"
      "(exec \"$@\" >&4 2>&5 3>&- 4>&- 5>&-)\n"
      "code=$?\n"
      "echo \"end {} $code\" >&3\n"
      "exit $code",
      pipe(pipes.news), pipe(pipes.output_error[2 * index]),
      pipe(pipes.output_error[2 * index + 1]), pipe(pipes.guardian), spot.rank);
}

}  // namespace

void RankNews::feed(std::string_view bytes) {
  rest_ += bytes;
  const std::size_t whole = rest_.rfind('\n') + 1;
  for (const std::string& line : split(rest_.substr(0, whole), '\n')) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "group") words >> groups_.emplace_back();
    if (kind != "end") continue;
    const bool asked = any_bad();
    RankEnd& end = ends_.emplace_back();
    words >> end.rank >> end.code;
    end.asked = asked;
    if (end.code <= kSignalBase || end.code > kSignalBase + kLastSignal) continue;
    end.signal = end.code - kSignalBase;
    end.code = 0;
  }
  rest_.erase(0, whole);
}

bool RankNews::any_bad() const {
  return std::any_of(ends_.begin(), ends_.end(), [](const RankEnd& end) { return !end.well(); });
}

std::vector<std::string> mpirun_arguments(const std::vector<RankSpot>& spots,
                                          const std::vector<std::string>& command,
                                          const MpirunPipes& pipes, bool as_root) {
  std::vector<std::string> words = {"--host", fmt::format("localhost:{}", spots.size()),
                                    "--oversubscribe", "--bind-to", "none", "--mca",
                                    "mpi_yield_when_idle", "1",
                                    // The default algorithm takes twice the time on two ranks.
                                    "--mca", "coll_libnbc_iallreduce_algorithm", "1"};
  if (as_root) words.emplace_back("--allow-run-as-root");
  for (std::size_t i = 0; i < spots.size(); ++i) {
    if (i > 0) words.emplace_back(":");
    words.insert(words.end(), {"-n", "1", "-x", "DASO_NODE=" + spots[i].node_name(), "/bin/sh",
                               "-c", shell_script(pipes, spots[i], i), "daso-rank"});
    words.insert(words.end(), command.begin(), command.end());
  }
  return words;
}

Environment mpirun_environment(Environment inherited, const JobAddress& job) {
  Environment& environment = inherited;
  // Rank and size are mpirun's to say; an outer launcher's would hide them.
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
        "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"}) {
    environment.erase(name);
  }
  environment["DASO_RENDEZVOUS"] = job.store.text();
  environment["DASO_JOB_TOKEN"] = job.token;
  environment["DASO_LAUNCHER"] = "daso";
  environment[kBackendVariable] = "mpi";
  // Reading another process's memory is forbidden in many containers, and mpirun then complains.
  environment.emplace("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  add_thread_defaults(environment);
  return inherited;
}

std::optional<RankEnd> failed_rank(const std::string& report, int exit_code) {
  static const std::regex kBySignal(
      R"(process rank (\d+) with PID \d+ on node \S+ exited on signal (\d+))");
  static const std::regex kByCode(R"(Process name: \[\[\d+,\d+\],(\d+)\]\s+Exit code:\s+(\d+))");
  static const std::regex kByAbort(R"(MPI_ABORT was invoked on rank (\d+))");
  std::smatch found;
  if (std::regex_search(report, found, kBySignal)) {
    return RankEnd{.rank = std::stoi(found[1]), .signal = std::stoi(found[2])};
  }
  if (std::regex_search(report, found, kByCode)) {
    return RankEnd{.rank = std::stoi(found[1]), .code = std::stoi(found[2])};
  }
  if (std::regex_search(report, found, kByAbort)) {
    return RankEnd{.rank = std::stoi(found[1]), .code = exit_code};
  }
  return std::nullopt;
}

std::string without_phrase(std::string report) {
  const std::string rule = std::string(74, '-') + "\n";  // stands above and below a paragraph
  const std::size_t begin = report.find(rule + "Primary job  terminated normally");
  if (begin == std::string::npos) return report;
  const std::size_t end = report.find(rule, begin + rule.size());
  if (end == std::string::npos) return report;
  return report.erase(begin, end + rule.size() - begin);
}

}  // namespace daso
