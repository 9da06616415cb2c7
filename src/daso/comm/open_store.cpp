// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/open_store.h"

#include <algorithm>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/backend.h"
#include "daso/comm/own_address.h"
#include "daso/comm/rendezvous.h"

namespace daso {
namespace {

// What the user can change about the place to meet.
std::string advice(const Place& place) {
  return place.fixed_rendezvous ? "MASTER_ADDR and MASTER_PORT name the place to meet"
                                : "DASO_RENDEZVOUS=HOST:PORT names another place to meet";
}

template <typename Action>
auto with_advice(const Place& place, const Action& action) {
  try {
    return action();
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{}; {}", error.what(), advice(place)));
  }
}

// To rank 0, which hosts the store.
Store connect(const WorldOptions& options, const Address& address) {
  const Place& place = options.place;
  try {
    return Store::connect(address, joining_limit(options), options.limit);
  } catch (const PeerError& error) {
    // Until the limit a name may still become known, as those of containers do.
    with_advice(place, [&] { return addresses_of(address.host); });
    throw PeerError(fmt::format(
        "rank {} on host {} cannot reach rank 0: {}; {}, --interface DEV another network",
        place.rank, host_name(), error.what(), advice(place)));
  }
}

// Rank 0 and the others tell each other by MPI how they can be reached.
Store meet_over_mpi(const WorldOptions& options) {
  const Place& place = options.place;
  const auto tell = [gather = backend_module("mpi").gather,
                     size = place.size](const std::string& text) { return gather(text, size); };
  const std::vector<std::string> all = tell(join(outward_addresses(), ","));
  if (place.rank != 0) return connect(options, parse_address(tell("").front()));

  std::string host;
  if (!options.interface.empty()) {
    host = address_of_device(options.interface);
  } else {
    std::vector<std::vector<std::string>> others;
    for (const std::string& addresses : all) others.push_back(split(addresses, ','));
    host = address_towards(others);
  }
  Store store = Store::host(listen_on({host, 0}));
  mark_job(store, place.job_token);
  tell(store.address().text());
  return store;
}

// Many systems give a machine's own name the address 127.0.1.1, where no other machine can reach
// it. All ranks of such a machine come to the same address here.
Address meeting_address(const WorldOptions& options) {
  const Place& place = options.place;
  Address address = *place.rendezvous;
  if (place.rank == 0 && !options.interface.empty()) {
    address.host = address_on_device(address.host, options.interface);
    return address;
  }
  const std::vector<std::string> meant = addresses_of(address.host);
  if (!std::ranges::all_of(meant, is_loopback)) return address;
  if (!options.interface.empty()) {
    address.host = address_of_device(options.interface);
  } else if (!place.one_machine && address.host != "localhost" && !is_loopback(address.host)) {
    address.host = is_known(place.other_host) ? address_towards({addresses_of(place.other_host)})
                                              : outward_address();
  }
  return address;
}

Store meet_at_rank_zero(const WorldOptions& options) {
  const Place& place = options.place;
  // Kubernetes makes the names of its pods known one after the other, so they are waited for.
  const bool waits = place.rank != 0 && place.launcher == Launcher::kPyTorch;
  if (waits && !is_known(place.rendezvous->host)) return connect(options, *place.rendezvous);
  const Address address = with_advice(place, [&] { return meeting_address(options); });
  if (place.rank != 0) return connect(options, address);
  Store store = with_advice(place, [&] { return Store::host(listen_on(address)); });
  mark_job(store, place.job_token);
  return store;
}

}  // namespace

Store open_store(const WorldOptions& options) {
  const Place& place = options.place;
  if (place.store_at == StoreAt::kOverMpi) return meet_over_mpi(options);
  require(place.rendezvous.has_value(),
          "rank {} of {} does not know where to meet the others; pass --rendezvous HOST:PORT",
          place.rank, place.size);
  if (place.store_at == StoreAt::kRankZero) return meet_at_rank_zero(options);
  // Launchers that decide views have a store for members; a replay takes any launcher's.
  const bool for_members = options.view && !options.view->replayed;
  const Store store =
      for_members ? Store::connect_as_member(*place.rendezvous, place.job_token,
                                             joining_limit(options), options.limit)
                  : Store::connect(*place.rendezvous, joining_limit(options), options.limit);
  if (place.store_at != StoreAt::kAgent && !options.view) return store;
  // Of a store for views each has a part of its own.
  Store part = options.view ? store.under(place.store_prefix)
                            : present_part(store, place, joining_limit(options));
  if (place.rank == 0) mark_job(part, place.job_token);
  return part;
}

std::string own_address(const WorldOptions& options, const Store& store) {
  if (!options.interface.empty()) return address_of_device(options.interface);
  return own_address_towards(store.address().host);
}

}  // namespace daso
