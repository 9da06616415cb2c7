// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/launch.h"

#include <unistd.h>

#include <numeric>
#include <string_view>

#include "daso/base/error.h"
#include "daso/base/process_limits.h"
#include "daso/base/text.h"
#include "daso/launch/child_process.h"
#include "daso/launch/job.h"
#include "daso/launch/launch_plan.h"
#include "daso/launch/mpirun.h"

namespace daso {
namespace {

constexpr int kMpirun = -1;  // stands for mpirun where a rank's number is expected

int launch_ranks(const LaunchOptions& options) {
  const Environment inherited = this_environment();
  const std::string program = find_program(options.command.front(), inherited);
  Job job(options);
  for (const RankSpot& spot : job.spots()) {
    ChildProcess rank({.path = program,
                       .arguments = options.command,
                       .environment = rank_environment(inherited, options, spot, job.address()),
                       .node = job.home_of(spot)},
                      job.mask(), job.announce_to());
    job.listen_to(spot, rank.take_output(), rank.take_error());
    job.supervisor().add_process(spot.rank, std::move(rank));
  }
  job.run();
  return job.finish(job.supervisor().ends());
}

std::string find_mpirun(const Environment& environment) {
  try {
    return find_program("mpirun", environment);
  } catch (const ConfigError&) {
    throw ConfigError(
        "backend mpi needs mpirun, which is not in PATH; install Open MPI (Debian: openmpi-bin)");
  }
}

// The ranks that mpirun starts, as far as we hear of them.
struct MpirunRanks {
  std::vector<FileDescriptor> writing;  // ends of pipes that the ranks open
  RankNews news;
};

void on_news(Job& job, MpirunRanks& ranks, std::string_view bytes) {
  ranks.news.feed(bytes);
  if (ranks.writing.empty() || ranks.news.groups().size() < job.spots().size()) return;
  for (const pid_t group : ranks.news.groups()) job.supervisor().first_process().adopt(group);
  ranks.writing.clear();  // every rank has opened its own, so that theirs are the last
}

MpirunPipes open_pipes(Job& job, MpirunRanks& ranks) {
  MpirunPipes pipes;
  pipes.launcher = ::getpid();
  pipes.guardian = job.announce_to();
  const auto keep = [&](FileDescriptor writing) {
    ranks.writing.push_back(std::move(writing));
    return ranks.writing.back().get();
  };
  for (const RankSpot& spot : job.spots()) {
    Pipe output = make_pipe();
    Pipe error = make_pipe();
    pipes.output_error.push_back(keep(std::move(output.write)));
    pipes.output_error.push_back(keep(std::move(error.write)));
    job.listen_to(spot, std::move(output.read), std::move(error.read));
  }
  Pipe news = make_pipe();
  pipes.news = keep(std::move(news.write));
  job.supervisor().add_stream(
      std::move(news.read), [&job, &ranks](std::string_view bytes) { on_news(job, ranks, bytes); },
      [] {});
  return pipes;
}

int launch_mpirun(const LaunchOptions& options) {
  const Environment inherited = this_environment();
  const std::string program = find_program(options.command.front(), inherited);
  const std::string mpirun = find_mpirun(inherited);
  MpirunRanks ranks;
  std::string report;
  Job job(options);
  const MpirunPipes pipes = open_pipes(job, ranks);
  std::vector<std::string> command = options.command;
  command.front() = program;
  std::vector<std::string> words =
      mpirun_arguments(job.spots(), command, pipes, /*as_root=*/::geteuid() == 0);
  words.insert(words.begin(), "mpirun");
  ChildProcess process({mpirun, words, mpirun_environment(inherited, job.address())}, job.mask(),
                       job.announce_to());
  const auto hear = [&report](std::string_view bytes) { report += bytes; };
  job.supervisor().add_stream(process.take_output(), hear, [] {});
  job.supervisor().add_stream(process.take_error(), hear, [] {});
  job.supervisor().add_process(kMpirun, std::move(process));
  job.run();

  std::vector<RankEnd> ends = ranks.news.ends();
  const RankEnd& all = job.supervisor().ends().front();
  if (!all.well() && !ranks.news.any_bad()) {
    std::optional<RankEnd> rank = failed_rank(report, all.code);
    if (rank) rank->asked = all.asked;
    ends.push_back(rank.value_or(all));
  }
  // Where a rank is to blame, we say so in one line.
  const bool named = !ends.empty() && (ranks.news.any_bad() || ends.back().rank != kMpirun);
  if (all.well() || !named) job.quote(without_phrase(report));
  return job.finish(ends);
}

// At most, as measured: of each rank of the job its connections to the store, and of our own their
// pipes; on a cluster the nodes' namespaces.
int open_files_of(const LaunchOptions& options) {
  const auto& ranks = options.ranks_per_node;
  const auto nodes = static_cast<int>(ranks.size());
  return 16 + 10 * std::accumulate(ranks.begin(), ranks.end(), 0) +
         (options.cluster.empty() ? 0 : 5 * nodes);
}

}  // namespace

int launch(const LaunchOptions& options) {
  validate(options);
  require_open_files(open_files_of(options), "a launcher of these ranks");
  if (options.survival) return launch_surviving(options);
  return options.backend == "mpi" ? launch_mpirun(options) : launch_ranks(options);
}

}  // namespace daso
