// SPDX-License-Identifier: Apache-2.0
#include "verify/verify_ranks.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "daso/base/error.h"
#include "daso/comm/backend.h"
#include "daso/comm/gather_text.h"
#include "daso/comm/rendezvous.h"
#include "daso/comm/with_abandon.h"
#include "daso/launch/ranks.h"
#include "daso/run/rank_device.h"
#include "verify/captured_output.h"
#include "verify/verdict.h"

namespace daso::verify {
namespace {

const TrainingCase& training_in(const GoldenCase& golden) {
  return std::get<TrainingCase>(golden.what);
}

Verdict verify_in(World& world, const VerifyFlags& flags, const GoldenCase& golden) {
  return verify_training(world, training_in(golden), flags.exchange_kind(), flags.wire,
                         rank_device(world, flags.device).device);
}

// The arguments of this program that make it a rank of the job.
std::vector<std::string> job_arguments(const VerifyFlags& flags, const GoldenCase& golden) {
  const LaunchFlags& launch = flags.launch;
  std::vector<std::string> words = {"verify",     golden.file,
                                    "--job-case", std::to_string(golden.index),
                                    "--exchange", std::string(name_of(flags.exchange_kind())),
                                    "--wire",     std::string(name_of(flags.wire)),
                                    "--device",   text_of(flags.device),
                                    "--backend",  launch.backend,
                                    "--timeout",  fmt::format("{}", launch.limit.count())};
  if (!launch.interface.empty()) words.insert(words.end(), {"--interface", launch.interface});
  if (!launch.ports.any()) words.insert(words.end(), {"--ports", launch.ports.text()});
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

std::vector<int> node_of_rank(const TrainingCase& training) {
  std::vector<int> nodes;
  for (std::size_t node = 0; node < training.nodes.size(); ++node) {
    nodes.insert(nodes.end(), static_cast<std::size_t>(training.nodes[node]),
                 static_cast<int>(node));
  }
  return nodes;
}

// What must be equal on all ranks.
std::string configuration_of(const VerifyFlags& flags, const GoldenCase& golden) {
  return fmt::format("command = verify\ncase = {}\nexchange = {}\nwire = {}\n", golden.name,
                     name_of(flags.exchange_kind()), name_of(flags.wire));
}

// In a world that is joined for one case and left again; the others learn at once of what ends this
// rank.
Verdict join_and_verify(const WorldOptions& options, const VerifyFlags& flags,
                        const GoldenCase& golden) {
  World world = World::join(options);
  return with_abandon(world, [&] {
    const Verdict verdict = verify_in(world, flags, golden);
    world.leave();
    return verdict;
  });
}

}  // namespace

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
  set_up_process();
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

GivenWorld::GivenWorld(World& world, const Place& place, const VerifyFlags& flags)
    : world_(world), place_(place), flags_(flags) {
  if (flags.launch.backend == "mpi" && world.size() > 1) keep_mpi_running();
}

GivenWorld::~GivenWorld() = default;

std::string GivenWorld::listening_address() const {
  if (!flags_.launch.interface.empty()) return address_of_device(flags_.launch.interface);
  if (place_.rendezvous) return own_address_towards(place_.rendezvous->host);
  for (int rank = 1; rank < world_.size(); ++rank) {
    if (world_.host_of(rank) != world_.host_of(0)) return own_address_towards(world_.host_of(rank));
  }
  return "127.0.0.1";
}

GivenWorld::MeetingPlace GivenWorld::open_meeting_place() {
  MeetingPlace place;
  std::string address;
  if (world_.rank() == 0) {
    place.hosted = Store::host(listen_on({listening_address(), 0}));
    mark_job(*place.hosted, place_.job_token);
    address = place.hosted->address().text();
  }
  place.address = parse_address(gather_text(world_.everyone(), address, world_.limit()).front());
  return place;
}

// MPI ends with the last that uses it in a process, and cannot start again for the next case.
void GivenWorld::keep_mpi_running() {
  const MeetingPlace place = open_meeting_place();
  const Store store = place.hosted ? *place.hosted : Store::connect(place.address, world_.limit());
  std::vector<int> ranks(static_cast<std::size_t>(world_.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = open_backend("mpi", world_.size())
                         ->make_group({.store = store.under("running"),
                                       .ranks = ranks,
                                       .rank = world_.rank(),
                                       .limit = world_.limit(),
                                       .own_address = own_address_towards(place.address.host)});
  running_ = std::make_shared<c10::intrusive_ptr<c10d::Backend>>(group);
  world_.everyone().barrier().wait(world_.limit());  // nobody needs the store any more
}

Outcome GivenWorld::verify(const GoldenCase& golden) {
  WorldOptions options = world_options(flags_.launch, place_);
  options.node_of_rank = node_of_rank(std::get<TrainingCase>(golden.what));
  options.configuration = configuration_of(flags_, golden);
  if (world_.size() == 1) return {.verdict = join_and_verify(options, flags_, golden)};
  const MeetingPlace meeting = open_meeting_place();
  options.place.rendezvous = meeting.address;
  options.place.store_at = StoreAt::kLauncher;  // the store is marked already
  const Verdict verdict = join_and_verify(options, flags_, golden);
  world_.everyone().barrier().wait(world_.limit());  // nobody needs the store any more
  return {.verdict = verdict};
}

}  // namespace daso::verify
