// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/world.h"

#include <algorithm>
#include <set>
#include <thread>

#include "daso/base/error.h"
#include "daso/comm/link/polling.h"
#include "daso/comm/world/body.h"
#include "daso/tensor/lane.h"

namespace daso {
namespace {

constexpr Seconds kBetweenCalls{0.005};
constexpr Seconds kForOthers{
    2};  // of the node, to come where they hear that this rank has given up

}  // namespace

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

std::vector<int> World::Body::launch_ranks() const {
  std::vector<int> ranks;
  for (const Member& member : members) ranks.push_back(member.launch_rank);
  return ranks;
}

World::World(std::unique_ptr<Body> body) : body_(std::move(body)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

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

Views* World::views() {
  if (!view()) return nullptr;
  if (!body_->views) body_->views.emplace(view()->decisions, node_link("view"), limit());
  return &*body_->views;
}

const std::string& World::host_of(int rank) const {
  return body_->members.at(static_cast<std::size_t>(rank)).host;
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
    begin_generation(*next->store, next->generation, next->launch_ranks());
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
