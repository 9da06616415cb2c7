// SPDX-License-Identifier: Apache-2.0
#include "verify/given_world.h"

#include <numeric>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "daso/comm/backend.h"
#include "daso/comm/gather_text.h"
#include "daso/comm/rendezvous.h"

namespace daso::verify {

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
  const auto group =
      open_backend("mpi")->make_group({.store = store.under("running"),
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
  options.place.store_at = StoreAt::kGiven;
  options.place.launcher = "daso";  // the store is marked already
  const Verdict verdict = join_and_verify(options, flags_, golden);
  world_.everyone().barrier().wait(world_.limit());  // nobody needs the store any more
  return {.verdict = verdict};
}

}  // namespace daso::verify
