// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daso/comm/alarm.h"
#include "daso/comm/lookout.h"
#include "daso/comm/place.h"
#include "daso/comm/store.h"
#include "daso/comm/topology.h"
#include "daso/comm/views.h"

// How the ranks of a job meet: over the store they compare who they are before they do anything.
namespace daso {

// One rank as the others know it.
struct Member {
  int launch_rank = 0;  // its number when the job began
  std::string host;
  std::string node;
  std::optional<Address> door;       // see reach.h
  std::string text(int rank) const;  // rank 3 (node1 on host h)
};

struct Meeting {
  const Place& place;
  std::string backend;
  std::string configuration;  // must be equal on all ranks; lines, the first that differs is named
  std::vector<int> node_of_rank;  // empty: by the members' node names
  std::string door;               // see reach.h; empty: none
  Seconds limit{60};
};

// Marks the table as one job's before the first rank comes. By whoever hosts the store.
void mark_job(const Store& root, const std::string& job_token);

// This job's part of an agent's store, which knows nothing of it and outlives its ranks: the agent
// starts them again, also with another number and without counting, and what those before have
// written is still there. So each time has a part of its own. Rank 0 opens it, and beats in it
// until all others are there; that is how they know it from older ones. Throws PeerError if there
// is none within the limit.
Store present_part(const Store& agents, const Place& place, Seconds limit);

// Refuses a process of another job: one that came here by accident, before it does any harm. Throws
// PeerError if the job does not begin within the limit, or if the view ends before (null: there is
// none).
void check_job(const Store& root, const Place& place, Seconds limit, Decisions* decisions);

// Tells who we are, waits for the others and compares. Rank 0 does it for all and publishes the
// roll. Throws what the alarm is raised with if any rank differs, is missing or dies meanwhile.
std::vector<Member> meet(const Store& root, const Meeting& meeting, Alarm& alarm, Lookout& lookout);

// Those that are left of an older generation find each other again. `old_rank` is ours there, and
// gone() says who is known to have ended meanwhile. The first of the others waits until they are
// all here, or for the limit, and then decides who belongs to the next generation.
// Returns the old ranks of the new members, ascending.
std::vector<int> regroup(const Store& next, const std::vector<int>& survivors, int old_rank,
                         Seconds limit, const std::function<std::set<int>()>& gone);

Topology topology_of(const std::vector<Member>& members, const std::vector<int>& node_of_rank);

}  // namespace daso
