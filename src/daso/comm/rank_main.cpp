// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/rank_main.h"

#include <c10/util/Logging.h>
#include <c10/util/env.h>
#include <unistd.h>

#include <csignal>

#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/base/process_limits.h"
#include "daso/base/standard_streams.h"
#include "daso/comm/launcher_line.h"
#include "daso/comm/message_of.h"
#include "daso/comm/worlds.h"

namespace daso {
namespace {

// What a rank has open and running at most, as measured. A world of one has no connections.
void require_means(int size) {
  if (size == 1) return;
  const std::string who = fmt::format("a rank of {}", size);
  require_open_files(30 + 5 * size, who);
  require_threads(kThreadsOfRank, who);
}

// Ends the process without destructors: those of a world that is not at peace would wait for
// operations that nobody else takes part in any more.
[[noreturn]] void exit_now(int code) {
  flush_output();
  std::_Exit(code);
}

// An echo repeats what another rank has reported; a launcher that shows that one leaves it out.
int report(const std::exception& error, int rank, bool echo) {
  const int code = exit_code_of(error);
  const std::string_view mark = echo ? kLostPeerMark : "daso: ";
  const std::string who = code == kExitBug ? fmt::format("rank {}: ", rank) : "";
  const std::string line = fmt::format("{}{}{}\n", mark, who, message_of(error));
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
  return code;
}

}  // namespace

int rank_main(const WorldOptions& options, const std::function<int(Worlds&)>& body) {
  const int rank = options.place.rank;
  hold_standard_streams();
  set_up_process();
  ::signal(SIGPIPE, SIG_IGN);  // a connection whose other end died is an error, not the end of us
  // Where the output of all ranks goes to one stream only rank 0's is the job's.
  if (rank != 0 && options.place.one_output) ::dup2(STDERR_FILENO, STDOUT_FILENO);
  try {
    require_means(options.place.size);
    Worlds worlds(options);
    try {
      // mpirun ends the others at once when a rank has ended with another code than 0.
      const int code = checked_output(body(worlds));
      // The others of a world that goes on without this rank do not leave it now.
      if (worlds.joined() && !worlds.over()) worlds.current().leave();
      if (code == kExitOk) return code;
      exit_now(code);
    } catch (const std::exception& error) {
      const bool lost_peer = exit_code_of(error) == kExitPeer;
      const bool told = worlds.joined() && !lost_peer &&
                        worlds.current().abandon(message_of(error));
      exit_now(report(error, rank, !told && (lost_peer || worlds.joined())));
    }
  } catch (const std::exception& error) {
    exit_now(report(error, rank, exit_code_of(error) == kExitPeer));
  }
}

int rank_main(const WorldOptions& options, const std::function<int(World&)>& body) {
  return rank_main(options, std::function<int(Worlds&)>([&body](Worlds& worlds) {
                     if (worlds.survives()) throw_one_world();
                     return body(worlds.next());
                   }));
}

namespace {

template <typename Body>
int rank_main_here(const Body& body) {
  WorldOptions options;
  try {
    const Environment environment = this_environment();
    options.place = place_from(environment).value_or(Place{});
    options.backend = find(environment, kBackendVariable).value_or(options.backend);
  } catch (const std::exception& error) {
    return report(error, options.place.rank, /*echo=*/false);
  }
  return rank_main(options, body);
}

}  // namespace

int rank_main(const std::function<int(World&)>& body) { return rank_main_here(body); }
int rank_main(const std::function<int(Worlds&)>& body) { return rank_main_here(body); }

void set_up_process() {
  quiet_libtorch();
  c10::utils::set_env("TORCH_FR_BUFFER_SIZE", "0", /*overwrite=*/false);
}

void quiet_libtorch() {
  if (!c10::utils::has_env("TORCH_CPP_LOG_LEVEL")) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
}

}  // namespace daso
