// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/world.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "daso/base/error.h"
#include "daso/comm/backend.h"
#include "daso/comm/group.h"
#include "daso/comm/launcher_line.h"
#include "daso/comm/link/open_link.h"
#include "daso/comm/link/polling.h"
#include "daso/comm/open_store.h"
#include "daso/comm/reach.h"
#include "daso/comm/rendezvous.h"
#include "daso/comm/views.h"
#include "daso/tensor/lane.h"

namespace daso {
namespace {

constexpr Seconds kBetweenCalls{0.005};
constexpr Seconds kForDoors{1};  // to find out which ranks cannot reach each other
constexpr Seconds kForOthers{2};  // of the node, to come where they hear that this rank has given up

// How many operations each group has begun, read by the lookout's thread.
class GroupCounts {
 public:
  using Count = std::function<std::int64_t()>;

  void follow(const std::string& name, Count count) {
    const std::lock_guard lock(mutex_);
    groups_[name] = std::move(count);
  }
  bool has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    return groups_.contains(name);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    groups_.clear();
  }
  std::map<std::string, std::int64_t> all() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::int64_t> counts;
    for (const auto& [name, count] : groups_) counts[name] = count();
    return counts;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Count> groups_;
};

// Who counts the ranks also ends them, unless it is killed. Our own launcher has a guardian for
// that case, which lets them save first.
Parent parent_to_watch(const WorldOptions& options) {
  const Launcher launcher = options.place.launcher;
  if (launcher == Launcher::kNone || launcher == Launcher::kPyTorch) return {};
  const bool ours = launcher == Launcher::kDaso;
  return {
      .pid = ::getppid(), .name = name_of(launcher), .patience = ours ? options.limit : Seconds(0)};
}

// A device's link is called so in messages, and so is the link of the hosts that it may borrow.
std::string name_on(const std::string& name, at::Device device) {
  if (device.is_cpu()) return name;
  return fmt::format("{} on {}", name, c10::DeviceTypeName(device.type(), /*lower_case=*/true));
}

std::string key_of_link(const std::string& name, at::Device device) {
  return device.is_cpu() ? name : fmt::format("{} itself", name_on(name, device));
}

std::vector<int> launch_ranks_of(const std::vector<Member>& members) {
  std::vector<int> ranks;
  for (const Member& member : members) ranks.push_back(member.launch_rank);
  return ranks;
}

// None where a backend needs no doors.
std::vector<Address> doors_of(const std::vector<Member>& members, const std::vector<int>& ranks) {
  std::vector<Address> doors;
  for (const int rank : ranks) {
    const Member& member = members.at(static_cast<std::size_t>(rank));
    if (member.door) doors.push_back(*member.door);
  }
  return doors;
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

std::vector<std::string> names_of(const std::vector<Member>& members) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < members.size(); ++i) {
    names.push_back(members[i].text(static_cast<int>(i)));
  }
  return names;
}

}  // namespace

struct World::Body {
  WorldOptions options;
  int rank = 0;
  int generation = 0;
  std::vector<Member> members;
  Topology topology;
  std::optional<Store> store;  // none in a world of one
  std::optional<Store> home_store;  // for the ranks of this node; likewise
  std::string own_address;
  FileDescriptor door;  // see reach.h; only where the backend connects to addresses of ours
  std::shared_ptr<Backend> backend;
  std::shared_ptr<GroupCounts> counts = std::make_shared<GroupCounts>();
  Guard guard{.alarm = std::make_shared<Alarm>(), .lookout = nullptr};
  Guard home = guard;  // of what stays inside the node
  // Whether the node's ranks train on when the view ends.
  struct Threshold {
    std::mutex mutex;
    bool passed = false;
  };
  std::shared_ptr<Threshold> threshold = std::make_shared<Threshold>();
  struct Entry {
    Group* group;
    std::unique_ptr<Communicator> communicator;
  };
  Timeline timeline;
  std::map<std::string, Entry> groups;
  std::map<std::string, std::unique_ptr<NodeLink>> links;  // some borrow a group or another link
  std::mutex mutex;  // guards both tables, for links that several threads ask for
  std::optional<Views> views;
  // In a world for a view, where ranks of the node find out whether all have come so far; null where
  // nobody need be asked, or all have been.
  std::unique_ptr<NodeLink> entrance;

  ~Body();
  void post_lookout();
  void keep_home();
  void open_entrance();
  bool pass_entrance(bool ready, Seconds limit);
  std::string with_broken_pair(const std::string& reason, const std::vector<int>& ranks);
  // Watched over by the guard of those ranks, or by this one.
  Communicator& make_group(const std::vector<int>& ranks, const std::string& name,
                           const std::optional<Guard>& own_guard = {});
  LinkPlan link_plan(const std::string& name, at::Device device);
  NodeLink& make_link(const std::string& name, at::Device device);
  NodeLink& link(const std::string& name, at::Device device);
  template <typename Value>
  Value* find(std::map<std::string, Value>& table_of, const std::string& name);
};

World::Body::~Body() {
  counts->clear();
  if (!guard.alarm->raised()) return;
  try {
    pass_entrance(false, kForOthers);
  } catch (const Error&) {
    // They have given up as well.
  }
  if (backend) backend->leak();
  if (backend && backend->can_abort()) return;
  for (auto& [name, entry] : groups) entry.group->leak();
}

void World::Body::post_lookout() {
  const Place& place = options.place;
  const bool by_rank_zero =
      place.store_at == StoreAt::kRankZero || place.store_at == StoreAt::kOverMpi;
  guard.lookout =
      std::make_shared<Lookout>(*store, generation,
                                Watch{.rank = rank,
                                      .launch_ranks = launch_ranks_of(members),
                                      .names = names_of(members),
                                      .begun = [counts = counts] { return counts->all(); },
                                      .parent = parent_to_watch(options),
                                      .hosts_store = by_rank_zero && place.rank == 0,
                                      .launchers_decide = options.view.has_value()},
                                guard.alarm);
}

// In a world that ends with its view a node that has entered trains on when another one is lost:
// only bad news about itself ends what its ranks do together.
void World::Body::keep_home() {
  home = guard;
  if (!options.view) return;
  home.alarm = std::make_shared<Alarm>();
  const std::vector<int>& own = topology.ranks_of(topology.node_of(rank));
  guard.alarm->on_raise([alarm = home.alarm, threshold = threshold, own](const Failure& failure) {
    const auto is_own = [&](int lost) {
      return std::find(own.begin(), own.end(), lost) != own.end();
    };
    const bool about_us = failure.kind == Failure::Kind::kConfig ||
                          std::any_of(failure.missing.begin(), failure.missing.end(), is_own);
    const std::lock_guard lock(threshold->mutex);
    if (about_us || !threshold->passed) alarm->raise(failure);
  });
  if (own.size() > 1) open_entrance();
}

// No bad news end what happens there: whoever has heard some says so.
void World::Body::open_entrance() {
  LinkPlan plan = link_plan("entrance", at::Device(at::kCPU));
  plan.guard = {.alarm = std::make_shared<Alarm>(), .lookout = guard.lookout};
  plan.making = guard;
  plan.group = [this, ranks = plan.name.ranks, name = plan.name.text,
                own = plan.guard]() -> Communicator& { return make_group(ranks, name, own); };
  entrance = open_link(plan);
}

// Whether all ranks of the node are ready.
bool World::Body::pass_entrance(bool ready, Seconds limit) {
  const std::unique_ptr<NodeLink> link = std::exchange(entrance, nullptr);
  if (!link) return ready;
  const at::Tensor all = at::zeros({link->size()}, at::kLong);
  all[link->rank()] = static_cast<std::int64_t>(ready);
  link->gather(all, {.slices = link->size()}, limit);
  return all.all().item<bool>();
}

// The reason, or better which of the ranks cannot reach each other, if this one finds out.
std::string World::Body::with_broken_pair(const std::string& reason,
                                          const std::vector<int>& ranks) {
  if (!door.open() || guard.alarm->raised()) return reason;
  if (const auto pair = broken_pair(members, ranks, rank, kForDoors)) return *pair;
  // A firewall may let one direction through: then it is another rank that finds out.
  guard.alarm->wait([] { return false; }, Deadline(1.5 * kForDoors));
  return reason;
}

Communicator& World::Body::make_group(const std::vector<int>& ranks, const std::string& name,
                                      const std::optional<Guard>& own_guard) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank);
  require(own != ranks.end(), "rank {} asked for group '{}', which it is not in", rank, name);
  require(std::is_sorted(ranks.begin(), ranks.end(), std::less_equal<>()) && ranks.front() >= 0 &&
              ranks.back() < static_cast<int>(members.size()),
          "group '{}' of ranks [{}]: ranks must ascend and lie in 0 ... {}", name,
          fmt::join(ranks, ", "), members.size() - 1);
  GroupOptions plan{.name = name,
                    .ranks = ranks,
                    .rank = static_cast<int>(own - ranks.begin()),
                    .store = std::nullopt,
                    // In later views the calls are those of the first, and all wait for them.
                    .check_first = !options.view || options.view->number <= kFirstView,
                    .check_all = options.check_collectives,
                    .limit = options.limit};
  auto backend_group = std::make_shared<c10::intrusive_ptr<c10d::Backend>>();
  if (ranks.size() > 1) {
    const Call call{.what = "making the group", .group = name};
    if (const auto failure = guard.alarm->raised()) throw_failure(call, *failure);
    plan.store = store->under(fmt::format("generation{}/group/{}", generation, name));
    // A thread of its own, and mostly a connection: it waits for the peers inside LibTorch.
    bool made = false;
    std::string reason = fmt::format("not done within {} s", options.limit.count());
    try {
      made = run_unless_raised(
          *guard.alarm,
          [backend_group, maker = backend,
           group_plan = GroupPlan{.store = backend->waits_in_store()
                                              ? plan.store->second_connection()
                                              : *plan.store,
                                  .ranks = ranks,
                                  .rank = plan.rank,
                                  .limit = options.limit,
                                  .own_address = own_address,
                                  .generation = generation,
                                  .door = door.get(),
                                  .doors = doors_of(members, ranks),
                                  .job_token = options.place.job_token}] {
            *backend_group = maker->make_group(group_plan);
          },
          Deadline(options.limit));
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {  // the backend's: a peer cannot be reached
      reason = error.what();
      reason = reason.substr(0, reason.find('\n'));
    }
    if (!made) {
      reason = with_broken_pair(reason, ranks);
      const auto failure = guard.alarm->raised();
      throw_failure(call, failure ? *failure : guard.lookout->ring(reason));
    }
  }
  const bool at_home = std::all_of(ranks.begin(), ranks.end(), [this](int one) {
    return topology.node_of(one) == topology.node_of(rank);
  });
  auto group = std::make_unique<Group>(std::move(plan), *backend_group,
                                       own_guard.value_or(at_home ? home : guard));
  Entry entry{.group = group.get(), .communicator = nullptr};
  counts->follow(name, [counted = group.get()] { return counted->begun(); });
  entry.communicator = std::make_unique<Communicator>(std::move(group));
  const std::lock_guard lock(mutex);
  return *groups.emplace(name, std::move(entry)).first->second.communicator;
}

LinkPlan World::Body::link_plan(const std::string& name, at::Device device) {
  const int node = topology.node_of(rank);
  const std::string own_name = name_on(name, device);
  LinkPlan plan{.name = {.text = fmt::format("node {} link {}", node, own_name),
                         .ranks = topology.ranks_of(node),
                         .rank = topology.local_rank_of(rank),
                         .begun = std::make_shared<std::atomic<std::int64_t>>(0)},
                .store = std::nullopt,
                .guard = home,
                .making = home,
                .limit = options.limit,
                .share_memory = options.share_memory,
                .device = device,
                .check_all = options.check_collectives};
  plan.group = [this, ranks = plan.name.ranks, text = plan.name.text]() -> Communicator& {
    return make_group(ranks, text);
  };
  plan.host = [this, own_name]() -> NodeLink& { return link(own_name, at::Device(at::kCPU)); };
  if (plan.name.ranks.size() > 1) {
    plan.store = home_store->under(fmt::format("generation{}/{}", generation, plan.name.text));
  }
  return plan;
}

NodeLink& World::Body::make_link(const std::string& name, at::Device device) {
  const LinkPlan plan = link_plan(name, device);
  std::unique_ptr<NodeLink> made = open_link(plan);
  if (!counts->has(plan.name.text)) {  // or else what it borrows counts
    counts->follow(plan.name.text, [begun = plan.name.begun] { return begun->load(); });
  }
  const std::lock_guard lock(mutex);
  return *links.emplace(key_of_link(name, device), std::move(made)).first->second;
}

NodeLink& World::Body::link(const std::string& name, at::Device device) {
  const std::unique_ptr<NodeLink>* known = find(links, key_of_link(name, device));
  return known == nullptr ? make_link(name, device) : **known;
}

template <typename Value>
Value* World::Body::find(std::map<std::string, Value>& table_of, const std::string& name) {
  const std::lock_guard lock(mutex);
  const auto known = table_of.find(name);
  return known == table_of.end() ? nullptr : &known->second;
}

World::World(std::unique_ptr<Body> body) : body_(std::move(body)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

World World::alone() {
  WorldOptions options;
  options.backend = "self";
  return join(options);
}

World World::join(const WorldOptions& options) {
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
  auto body = std::make_unique<Body>();
  body->options = options;
  body->rank = place.rank;
  if (options.view) {
    options.view->decisions->when_ended([alarm = body->guard.alarm] {
      alarm->raise({.text = "the launchers have ended this view"});
    });
    // At once: what the node's ranks do together may not end before the others of them hear of it.
    if (!options.view->replayed) {
      const std::weak_ptr<Decisions> launcher = options.view->decisions;
      body->guard.alarm->on_raise([launcher](const Failure& failure) {
        if (const auto there = launcher.lock()) there->trouble(failure.text);
      });
    }
  }
  if (place.size == 1) {
    if (!options.interface.empty()) address_of_device(options.interface);  // or it is refused
    const std::string host = host_name();
    body->members = {{.host = host, .node = place.node.empty() ? host : place.node}};
    body->topology = topology_of(body->members, options.node_of_rank);
    body->keep_home();
    return World(std::move(body));
  }
  if (!options.view && find(this_environment(), kLineVariable)) throw_one_world();
  body->backend = open_backend(options.backend, place.size);
  try {
    body->store = open_store_in(options, *body->guard.alarm);
    body->home_store = open_home_store_in(options, *body->store);
    const Store& store = *body->store;
    check_job(store, place, joining_limit(options),
              options.view ? options.view->decisions.get() : nullptr);
    body->own_address = own_address(options, store);
    // A launcher says which ports there are, whatever its ranks use.
    const Ports ports =
        options.backend == "tcp" && options.ports.any() ? place.ports : options.ports;
    if (options.backend != "mpi") body->door = listen_on(body->own_address, ports);
    for (int rank = 0; rank < place.size; ++rank) body->members.push_back({.launch_rank = rank});
    body->post_lookout();
    body->guard.lookout->introduce({});
    body->members = meet(store,
                         {.place = place,
                          .backend = options.backend,
                          .configuration = options.configuration,
                          .node_of_rank = options.node_of_rank,
                          .door = body->door.open() ? bound_address(body->door).text() : "",
                          .limit = joining_limit(options)},
                         *body->guard.alarm, *body->guard.lookout);
    body->guard.lookout->introduce(names_of(body->members));
    body->topology = topology_of(body->members, options.node_of_rank);
    body->keep_home();
  } catch (...) {
    // The others may be waiting for this rank and do not know that it ends.
    body->backend->leak();
    throw;
  }
  return World(std::move(body));
}

int World::rank() const { return body_->rank; }
int World::size() const { return static_cast<int>(body_->members.size()); }
int World::generation() const { return body_->generation; }
const Guard& World::guard() const { return body_->guard; }
const Guard& World::home_guard() const { return body_->home; }
Timeline& World::timeline() { return body_->timeline; }
Seconds World::limit() const { return body_->options.limit; }
const std::string& World::backend() const { return body_->options.backend; }
bool World::carries_checked() const { return !body_->backend || body_->backend->checks(); }
const Topology& World::topology() const { return body_->topology; }
int World::node() const { return body_->topology.node_of(rank()); }
int World::local_rank() const { return body_->topology.local_rank_of(rank()); }

int World::node_id() const {
  return view() ? view()->node_ids.at(static_cast<std::size_t>(node())) : node();
}

int World::rank_id() const {
  return view() ? view()->rank_ids.at(static_cast<std::size_t>(rank())) : rank();
}

const std::optional<WorldView>& World::view() const { return body_->options.view; }

void World::enter() {
  if (!view()) return;
  bool ready = false;
  {
    const std::lock_guard lock(body_->threshold->mutex);
    body_->threshold->passed = true;
    ready = !body_->home.alarm->raised();
  }
  if (body_->pass_entrance(ready, limit())) return;
  const std::optional<Failure> failure = body_->guard.alarm->raised();
  throw PeerError(failure ? failure->text : "another rank of this node has given this view up");
}

Views* World::views() {
  if (!view()) return nullptr;
  if (!body_->views) body_->views.emplace(view()->decisions, node_link("view"), limit());
  return &*body_->views;
}

const std::string& World::host_of(int rank) const {
  return body_->members.at(static_cast<std::size_t>(rank)).host;
}

Communicator& World::everyone() {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  for (int rank = 0; rank < size(); ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  return group(ranks, "everyone");
}

Communicator& World::node_group() {
  return group(topology().ranks_of(node()), fmt::format("node {}", node()));
}

Communicator& World::group(const std::vector<int>& ranks, const std::string& name) {
  const Body::Entry* known = body_->find(body_->groups, name);
  if (known == nullptr) return body_->make_group(ranks, name);
  require(known->communicator->world_ranks() == ranks,
          "group '{}' was made of ranks [{}] and is now asked for with [{}]", name,
          fmt::join(known->communicator->world_ranks(), ", "), fmt::join(ranks, ", "));
  return *known->communicator;
}

NodeLink& World::node_link(const std::string& name, at::Device device) {
  const bool current = !device.is_cpu() && !device.has_index();
  return body_->link(name,
                     current ? c10::impl::VirtualGuardImpl(device.type()).getDevice() : device);
}

void World::wait_until(const std::function<bool()>& reached, const std::string& what) {
  poll({.guard = body_->home, .call = {.what = what, .group = "this rank"}, .limit = limit()},
       reached);
}

void World::wait_for(at::Device device, const std::string& what) {
  if (device.is_cpu()) return;
  const std::shared_ptr<LaneMark> done = mark_of_caller(device);
  wait_until([&] { return done->reached(); }, what);
}

World World::next_generation(Seconds limit) && {
  require(body_->options.backend != "mpi",
          "backend mpi cannot build a world again after a rank was lost; gloo and tcp can");
  const std::optional<Failure> failure = body_->guard.alarm->raised();
  require(failure && failure->kind == Failure::Kind::kPeer,
          "next_generation() is for a world that has lost a rank");
  std::vector<int> survivors;
  for (int rank = 0; rank < size(); ++rank) {
    const auto& missing = failure->missing;
    if (std::find(missing.begin(), missing.end(), rank) == missing.end()) survivors.push_back(rank);
  }
  auto next = std::make_unique<Body>();
  next->options = body_->options;
  next->generation = body_->generation + 1;
  next->store = body_->store;  // kept, in case that the ranks do not find each other
  next->home_store = body_->home_store;
  next->own_address = body_->own_address;
  next->backend = open_backend(next->options.backend, next->options.place.size);
  const std::string name = fmt::format("generation{}", next->generation);
  const auto gone = [&] {
    const std::set<int> reported = reported_gone(*next->store);
    std::set<int> ranks;
    for (std::size_t i = 0; i < body_->members.size(); ++i) {
      if (reported.contains(body_->members[i].launch_rank)) ranks.insert(static_cast<int>(i));
    }
    return ranks;
  };
  const std::vector<int> members =
      regroup(next->store->under(name), survivors, rank(), limit, gone);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] == rank()) next->rank = static_cast<int>(i);
    next->members.push_back(body_->members.at(static_cast<std::size_t>(members[i])));
  }
  next->topology = topology_of(next->members, next->options.node_of_rank);
  next->keep_home();
  next->door = std::move(body_->door);
  if (next->rank == 0) {
    begin_generation(*next->store, next->generation, launch_ranks_of(next->members));
  }
  body_.reset();
  next->post_lookout();
  return World(std::move(next));
}

bool World::abandon(const std::string& reason) {
  if (!body_->guard.lookout) return true;
  const std::string who = body_->members[static_cast<std::size_t>(rank())].text(rank());
  const std::string text = fmt::format("{} ended with an error: {}", who, reason);
  return body_->guard.lookout->spread({.text = text, .missing = {rank()}}).text == text;
}

void World::leave() {
  if (!body_->store || body_->guard.alarm->raised()) return;
  const Store table = body_->store->under(fmt::format("generation{}", body_->generation));
  const Deadline deadline(body_->options.limit);
  try {
    body_->guard.lookout->farewell();
    table.add("left", 1);
    while (table.add("left", 0) < size()) {
      if (deadline.passed() || body_->guard.alarm->raised()) return;
      std::this_thread::sleep_for(kBetweenCalls);
    }
  } catch (const PeerError&) {
    // Its host goes only when it has seen everybody leave.
  }
}

}  // namespace daso
