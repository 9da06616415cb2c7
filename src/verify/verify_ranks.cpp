// SPDX-License-Identifier: Apache-2.0
#include "verify/verify_ranks.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <thread>

#include "daso/base/error.h"
#include "daso/comm/message_of.h"
#include "daso/comm/rendezvous.h"
#include "daso/launch/ranks.h"
#include "verify/captured_output.h"
#include "verify/verify_training.h"

namespace daso::verify {
namespace {

const TrainingCase& training_in(const GoldenCase& golden) {
  return std::get<TrainingCase>(golden.what);
}

Verdict verify_in(World& world, const VerifyFlags& flags, const GoldenCase& golden) {
  return verify_training(world, training_in(golden), flags.exchange_kind(), flags.wire);
}

// The arguments of this program that make it a rank of the job.
std::vector<std::string> job_arguments(const VerifyFlags& flags, const GoldenCase& golden) {
  const LaunchFlags& launch = flags.launch;
  std::vector<std::string> words = {"verify",     golden.file,
                                    "--job-case", std::to_string(golden.index),
                                    "--exchange", std::string(name_of(flags.exchange_kind())),
                                    "--wire",     std::string(name_of(flags.wire)),
                                    "--backend",  launch.backend,
                                    "--timeout",  fmt::format("{}", launch.limit.count())};
  if (!launch.interface.empty()) words.insert(words.end(), {"--interface", launch.interface});
  if (launch.check_collectives) words.emplace_back("--check-collectives");
  if (launch.no_shared_memory) words.emplace_back("--no-shared-memory");
  return words;
}

// Of the ranks' errors the one that is a cause and no echo of another's end.
std::exception_ptr cause_of(const std::vector<std::exception_ptr>& errors) {
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!first) first = error;
    try {
      std::rethrow_exception(error);
    } catch (const PeerError&) {
      continue;
    } catch (...) {
      return error;
    }
  }
  return first;
}

// A run that failed a check of its own is a case that does not hold, as it is with processes.
Outcome outcome_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    const int code = exit_code_of(known);
    if (code != kExitBug) throw;
    fmt::print(stderr, "daso: {}\n", known.what());
    return {.code = code};
  }
}

}  // namespace

std::vector<int> node_of_rank(const TrainingCase& training) {
  std::vector<int> nodes;
  for (std::size_t node = 0; node < training.nodes.size(); ++node) {
    nodes.insert(nodes.end(), static_cast<std::size_t>(training.nodes[node]),
                 static_cast<int>(node));
  }
  return nodes;
}

std::string configuration_of(const VerifyFlags& flags, const GoldenCase& golden) {
  return fmt::format("command = verify\ncase = {}\nexchange = {}\nwire = {}\n", golden.name,
                     name_of(flags.exchange_kind()), name_of(flags.wire));
}

Verdict join_and_verify(const WorldOptions& options, const VerifyFlags& flags,
                        const GoldenCase& golden) {
  World world = World::join(options);
  try {
    const Verdict verdict = verify_in(world, flags, golden);
    world.leave();
    return verdict;
  } catch (const PeerError&) {
    throw;
  } catch (const std::exception& error) {
    world.abandon(message_of(error));
    throw;
  }
}

ExchangeKind VerifyFlags::exchange_kind() const {
  return exchange.value_or(wire == Wire::kFp32 ? ExchangeKind::kRotating : ExchangeKind::kSharded);
}

Outcome on_processes(const VerifyFlags& flags, const GoldenCase& golden) {
  LaunchFlags launch = flags.launch;
  launch.ranks_per_node = training_in(golden).nodes;
  launch.nodes = static_cast<int>(launch.ranks_per_node.size());
  const CapturedOutput output;
  const int code = start_ranks(launch_options(launch, {}), job_arguments(flags, golden));
  if (code != kExitOk) return {.code = code};
  return {.verdict = verdict_in(output.text())};
}

int verify_job_rank(const VerifyFlags& flags, const Place& place, const GoldenCase& golden) {
  WorldOptions options = world_options(flags.launch, place);
  options.configuration = configuration_of(flags, golden);
  // A case that does not hold is no failure of the job.
  return rank_main(options, [&](World& world) {
    const Verdict verdict = verify_in(world, flags, golden);
    if (world.rank() == 0) fmt::print("{}\n", text_of(verdict));
    return kExitOk;
  });
}

Outcome on_threads(const VerifyFlags& flags, const GoldenCase& golden) {
  const Store store = Store::host(listen_on({"127.0.0.1", 0}));
  mark_job(store, "");
  const TrainingCase& training = training_in(golden);
  const auto ranks = static_cast<std::size_t>(training.ranks());
  std::vector<Verdict> verdicts(ranks);
  std::vector<std::exception_ptr> errors(ranks);
  const auto run_rank = [&](std::size_t rank) {
    at::set_num_threads(1);  // ranks share the cores
    WorldOptions options = world_options(flags.launch, {.rank = static_cast<int>(rank),
                                                        .size = static_cast<int>(ranks),
                                                        .local_rank = static_cast<int>(rank),
                                                        .rendezvous = store.address(),
                                                        .one_machine = true});
    options.node_of_rank = node_of_rank(training);
    try {
      verdicts[rank] = join_and_verify(options, flags, golden);
    } catch (...) {
      errors[rank] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank);
  }
  if (const std::exception_ptr error = cause_of(errors)) return outcome_of(error);
  return {.verdict = verdicts.front()};
}

}  // namespace daso::verify
