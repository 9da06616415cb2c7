// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/ranks.h"

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/process_limits.h"
#include "daso/comm/network.h"
#include "daso/comm/rank_main.h"
#include "daso/launch/hosts.h"
#include "daso/launch/launch_plan.h"
#include "daso/launch/output.h"

namespace daso {
namespace {

std::string text_of(const RankJob& job) {
  std::string text = fmt::format("command = {}\n", job.command);
  for (const auto& [flag, value] : job.configuration) text += fmt::format("{} = {}\n", flag, value);
  text += fmt::format("timeout = {}\n", job.flags.limit.count());
  text += fmt::format("check-collectives = {}\n", job.flags.check_collectives);
  text += fmt::format("no-shared-memory = {}\n", job.flags.no_shared_memory);
  return text;
}

}  // namespace

int start_ranks(LaunchOptions options, const std::vector<std::string>& arguments) {
  // What is wrong here is said once, instead of by every rank.
  require_backend(options.backend);
  if (!options.interface.empty()) address_of_device(options.interface);
  options.command = {own_program().string()};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  validate(options);
  // One limit is for all of them together, which none of them can see.
  const auto ranks = static_cast<int>(own_spots(options).size());
  require_threads(ranks * kThreadsOfRank,
                  ranks == 1 ? "a rank" : fmt::format("a job of {} ranks on this machine", ranks));
  return launch(options);
}

namespace {

// The exit code of the ranks, where this process is to start them; none: it is one itself, and
// joins with these options.
std::optional<int> started(const RankJob& job, const std::vector<std::string>& arguments,
                           WorldOptions& options) {
  std::optional<Place> place = place_from(this_environment());
  // Of a job that survives srun starts the launchers.
  if (place && place->launcher == Launcher::kSrun && job.flags.survival) place.reset();
  if (!place && starts_hosts(job.flags)) {
    return launch_on_hosts(job.flags, job.shape, arguments);
  }
  if (!place) {
    LaunchOptions launched = launch_options(job.flags, job.shape);
    const std::vector<int>& ranks = launched.ranks_per_node;
    const bool alone = ranks.size() == 1 && ranks.front() == 1 && launched.cluster.empty() &&
                       job.flags.hosts.empty();
    if (!alone) {
      launched.columns = terminal_columns();
      return start_ranks(std::move(launched), arguments);
    }
    // What is refused where ranks are started makes no sense here either.
    launched.command = {own_program().string()};
    validate(launched);
    if (!launched.interface.empty()) address_of_device(launched.interface);
  }
  options = world_options(job.flags, place.value_or(Place{}));
  options.configuration = text_of(job);
  return std::nullopt;
}

}  // namespace

int on_ranks(const RankJob& job, const std::vector<std::string>& arguments,
             const std::function<int(World&)>& body) {
  WorldOptions options;
  const std::optional<int> code = started(job, arguments, options);
  return code ? *code : rank_main(options, body);
}

int on_ranks(const RankJob& job, const std::vector<std::string>& arguments,
             const std::function<int(Worlds&)>& body) {
  WorldOptions options;
  const std::optional<int> code = started(job, arguments, options);
  return code ? *code : rank_main(options, body);
}

}  // namespace daso
