// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "daso/base/error.h"
#include "daso/comm/reach.h"
#include "daso/comm/world/body.h"

namespace daso {
namespace {

constexpr Seconds kForDoors{1};  // to find out which ranks cannot reach each other

// None where a backend needs no doors.
std::vector<Address> doors_of(const std::vector<Member>& members, const std::vector<int>& ranks) {
  std::vector<Address> doors;
  for (const int rank : ranks) {
    const Member& member = members.at(static_cast<std::size_t>(rank));
    if (member.door) doors.push_back(*member.door);
  }
  return doors;
}

}  // namespace

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
  c10::intrusive_ptr<c10d::Backend> connected;
  if (ranks.size() > 1) {
    plan.store = store->under(fmt::format("generation{}/group/{}", generation, name));
    connected = connect_group(plan);
  }
  const bool at_home = std::all_of(ranks.begin(), ranks.end(), [this](int one) {
    return topology.node_of(one) == topology.node_of(rank);
  });
  auto group = std::make_unique<Group>(std::move(plan), std::move(connected),
                                       own_guard.value_or(at_home ? home : guard));
  Entry entry{.group = group.get(), .communicator = nullptr};
  counts->follow(name, [counted = group.get()] { return counted->begun(); });
  entry.communicator = std::make_unique<Communicator>(std::move(group));
  const std::lock_guard lock(mutex);
  return *groups.emplace(name, std::move(entry)).first->second.communicator;
}

// On a thread of its own: it waits for the peers inside LibTorch.
c10::intrusive_ptr<c10d::Backend> World::Body::connect_group(const GroupOptions& group) {
  const Call call{.what = "making the group", .group = group.name};
  if (const auto failure = guard.alarm->raised()) throw_failure(call, *failure);
  const auto made = std::make_shared<c10::intrusive_ptr<c10d::Backend>>();
  std::string reason = fmt::format("not done within {} s", options.limit.count());
  try {
    const bool done = run_unless_raised(
        *guard.alarm,
        [made, maker = backend, plan = plan_of(group)] { *made = maker->make_group(plan); },
        Deadline(options.limit));
    if (done) return *made;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // the backend's: a peer cannot be reached
    reason = error.what();
    reason = reason.substr(0, reason.find('\n'));
  }
  reason = with_broken_pair(reason, group.ranks);
  const auto failure = guard.alarm->raised();
  throw_failure(call, failure ? *failure : guard.lookout->ring(reason));
}

GroupPlan World::Body::plan_of(const GroupOptions& group) const {
  return {.store = backend->waits_in_store() ? group.store->second_connection() : *group.store,
          .ranks = group.ranks,
          .rank = group.rank,
          .limit = options.limit,
          .own_address = own_address,
          .generation = generation,
          .door = door.get(),
          .doors = doors_of(members, group.ranks),
          .job_token = options.place.job_token};
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

}  // namespace daso
