// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "daso/base/error.h"
#include "daso/comm/launcher_line.h"
#include "daso/comm/open_store.h"
#include "daso/comm/own_address.h"
#include "daso/comm/world/body.h"

namespace daso {
namespace {

void check_options(const WorldOptions& options) {
  const Place& place = options.place;
  require(place.size >= 1 && place.rank >= 0 && place.rank < place.size,
          "rank {} of {} is not a place in a world", place.rank, place.size);
  require(options.limit > Seconds(0) && joining_limit(options) > Seconds(0),
          "the limits of a world must be above 0 s, they are {} and {}", options.limit.count(),
          joining_limit(options).count());
  require(
      options.node_of_rank.empty() || static_cast<int>(options.node_of_rank.size()) == place.size,
      "node_of_rank names {} ranks, the world has {}", options.node_of_rank.size(), place.size);
  require(options.ports.any() || options.backend == "tcp",
          "a range of ports ({}) is for backend tcp; backend {} chooses its own",
          options.ports.text(), options.backend);
  require(options.backend != "self" || place.size == 1,
          "backend self is a world of one, this job has {} ranks; use gloo, tcp or mpi",
          place.size);
}

// Who counts the ranks also ends them, unless it is killed. Our own launcher has a guardian for
// that case, which lets them save first.
Parent parent_to_watch(const WorldOptions& options) {
  const Launcher launcher = options.place.launcher;
  if (launcher == Launcher::kNone || launcher == Launcher::kPyTorch) return {};
  const bool ours = launcher == Launcher::kDaso;
  return {
      .pid = ::getppid(), .name = name_of(launcher), .patience = ours ? options.limit : Seconds(0)};
}

std::vector<std::string> names_of(const std::vector<Member>& members) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < members.size(); ++i) {
    names.push_back(members[i].text(static_cast<int>(i)));
  }
  return names;
}

// With the machine that has the store a view may end, while its ranks try to reach that.
Store open_store_in(const WorldOptions& options, Alarm& alarm) {
  if (!options.view) return open_store(options);
  const auto found = std::make_shared<std::optional<Store>>();
  const bool done = run_unless_raised(
      alarm, [options, found] { found->emplace(open_store(options)); },
      Deadline(joining_limit(options)));
  if (!done) {
    throw PeerError(fmt::format("the store at {} was not reached before the view ended",
                                options.place.rendezvous->text()));
  }
  const Store store = **found;
  options.view->decisions->when_ended([store] { store.abandon(); });
  return store;
}

// Where the ranks of a node meet: the store of a view may be far away, that of their own launcher
// is not.
Store open_home_store_in(const WorldOptions& options, const Store& store) {
  const std::optional<Address> home = options.view ? options.view->home : std::nullopt;
  if (!home || home->text() == store.address().text()) return store;
  return Store::connect_as_member(*home, options.place.job_token, joining_limit(options),
                                  options.limit)
      .under(options.place.store_prefix);
}

}  // namespace

World World::alone() {
  WorldOptions options;
  options.backend = "self";
  return join(options);
}

World World::join(const WorldOptions& options) {
  check_options(options);
  auto body = std::make_unique<Body>();
  body->options = options;
  body->rank = options.place.rank;
  if (options.view) body->listen_to_launcher();
  if (options.place.size == 1) {
    body->join_alone();
    return World(std::move(body));
  }
  if (!options.view && find(this_environment(), kLineVariable)) throw_one_world();
  body->backend = open_backend(options.backend, options.place.size);
  try {
    body->join_others();
  } catch (...) {
    // The others may be waiting for this rank and do not know that it ends.
    body->backend->leak();
    throw;
  }
  return World(std::move(body));
}

// Which says when the view has ended, and wants to know what goes wrong in it.
void World::Body::listen_to_launcher() {
  const WorldView& view = *options.view;
  view.decisions->when_ended(
      [alarm = guard.alarm] { alarm->raise({.text = "the launchers have ended this view"}); });
  if (view.replayed) return;
  // At once: what the node's ranks do together may not end before the others of them hear of it.
  const std::weak_ptr<Decisions> launcher = view.decisions;
  guard.alarm->on_raise([launcher](const Failure& failure) {
    if (const auto there = launcher.lock()) there->trouble(failure.text);
  });
}

void World::Body::join_alone() {
  if (!options.interface.empty()) address_of_device(options.interface);  // or it is refused
  const std::string host = host_name();
  members = {{.host = host, .node = options.place.node.empty() ? host : options.place.node}};
  topology = topology_of(members, options.node_of_rank);
  keep_home();
}

void World::Body::join_others() {
  const Place& place = options.place;
  store = open_store_in(options, *guard.alarm);
  home_store = open_home_store_in(options, *store);
  check_job(*store, place, joining_limit(options),
            options.view ? options.view->decisions.get() : nullptr);
  own_address = daso::own_address(options, *store);
  // A launcher says which ports there are, whatever its ranks use.
  const Ports ports = options.backend == "tcp" && options.ports.any() ? place.ports : options.ports;
  if (options.backend != "mpi") door = listen_on(own_address, ports);
  for (int one = 0; one < place.size; ++one) members.push_back({.launch_rank = one});
  post_lookout();
  guard.lookout->introduce({});
  members = meet(*store,
                 {.place = place,
                  .backend = options.backend,
                  .configuration = options.configuration,
                  .node_of_rank = options.node_of_rank,
                  .door = door.open() ? bound_address(door).text() : "",
                  .limit = joining_limit(options)},
                 *guard.alarm, *guard.lookout);
  guard.lookout->introduce(names_of(members));
  topology = topology_of(members, options.node_of_rank);
  keep_home();
}

void World::Body::post_lookout() {
  const Place& place = options.place;
  const bool by_rank_zero =
      place.store_at == StoreAt::kRankZero || place.store_at == StoreAt::kOverMpi;
  guard.lookout =
      std::make_shared<Lookout>(*store, generation,
                                Watch{.rank = rank,
                                      .launch_ranks = launch_ranks(),
                                      .names = names_of(members),
                                      .begun = [counts = counts] { return counts->all(); },
                                      .parent = parent_to_watch(options),
                                      .hosts_store = by_rank_zero && place.rank == 0,
                                      .launchers_decide = options.view.has_value()},
                                guard.alarm);
}

}  // namespace daso
