// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/rendezvous.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/base/version.h"

namespace daso {
namespace {

using nlohmann::json;

constexpr Seconds kBetweenReads{0.01};
constexpr const char* kNoToken = "none";
constexpr const char* kHeard = "heard";  // how many ranks know why nobody joins
// In an agent's store: how many parts there are, and in each of them rank 0's beats.
constexpr const char* kParts = "daso/parts";
constexpr const char* kBeats = "beats";
// Of those that are left of a generation: list of who is here, and who belongs to the next one.
constexpr const char* kHere = "here";
constexpr const char* kMembers = "members";

// Waits for a key to appear; none if it is in vain or the deadline has passed before.
std::optional<std::string> await(const Store& table, const std::string& key,
                                 const Deadline& deadline,
                                 const std::function<bool()>& in_vain = {}) {
  while (true) {
    if (auto value = table.find(key)) return value;
    if (deadline.passed() || (in_vain && in_vain())) return std::nullopt;
    std::this_thread::sleep_for(kBetweenReads);
  }
}

std::string hello_key(int rank) { return fmt::format("hello/{}", rank); }

json hello_of(const Meeting& meeting) {
  json nodes = json::array();
  for (const int node : meeting.node_of_rank) nodes.push_back(node);
  return {{"version", kVersion},
          {"size", meeting.place.size},
          {"backend", meeting.backend},
          {"node_of_rank", nodes},
          {"configuration", meeting.configuration},
          {"host", host_name()},
          {"machine", machine_identity()},
          {"node", meeting.place.node},
          {"door", meeting.door}};
}

std::string first_difference(const std::string& a, const std::string& b) {
  const std::vector<std::string> ours = split(a, '\n');
  const std::vector<std::string> theirs = split(b, '\n');
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    const std::string left = i < ours.size() ? ours[i] : "nothing";
    const std::string right = i < theirs.size() ? theirs[i] : "nothing";
    if (left != right) return fmt::format("'{}' there, '{}' on rank 0", right, left);
  }
  return "";
}

// What is wrong with a rank's hello, as rank 0 sees it; empty: nothing.
std::string difference(const json& ours, const json& theirs) {
  for (const char* field : {"version", "size", "backend", "node_of_rank"}) {
    if (ours.at(field) == theirs.at(field)) continue;
    return fmt::format("{} differs: {} there, {} on rank 0", field, theirs.at(field).dump(),
                       ours.at(field).dump());
  }
  const std::string lines = first_difference(ours.at("configuration"), theirs.at("configuration"));
  return lines.empty() ? "" : fmt::format("the configuration differs: {}", lines);
}

[[noreturn]] void throw_failure(const Failure& failure) {
  if (failure.kind == Failure::Kind::kConfig) throw ConfigError(failure.text);
  throw PeerError(failure.text);
}

// Tells all ranks and gives them a moment to hear it, since the store may go with rank 0.
[[noreturn]] void refuse(const Store& root, int ranks, Lookout& lookout, Failure failure) {
  const Failure told = lookout.spread(std::move(failure));
  const Deadline deadline(Lookout::kRollCall);
  while (root.add(kHeard, 0) < ranks - 1 && !deadline.passed()) {
    std::this_thread::sleep_for(kBetweenReads);
  }
  throw_failure(told);
}

// Ranks of one machine form a node, where nobody has said otherwise.
void name_nodes(json& roll) {
  std::vector<std::string> hosts;
  std::vector<std::string> machines;
  for (const json& member : roll) {
    hosts.push_back(member.at("host"));
    machines.push_back(member.at("machine"));
  }
  const std::vector<std::string> nodes = nodes_of_machines(hosts, machines);
  std::set<std::string> alike;
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    json& node = roll[rank].at("node");
    if (!node.get<std::string>().empty()) continue;
    node = nodes[rank];
    if (nodes[rank] != hosts[rank]) alike.insert(hosts[rank]);
  }
  for (const std::string& host : alike) {
    fmt::print(stderr, "daso: note: several machines are called '{}'; each is a node of its own\n",
               host);
  }
}

// Rank 0's part: compares every rank's hello with its own as they come.
json gather_roll(const Store& root, const Meeting& meeting, Alarm& alarm, Lookout& lookout) {
  const json ours = hello_of(meeting);
  const Deadline deadline(meeting.limit);
  json roll = json::array();
  Failure failure;
  std::vector<std::string> absent;
  for (int rank = 0; rank < meeting.place.size; ++rank) {
    const auto text = await(root, hello_key(rank), deadline, [&] {
      if (meeting.place.store_at == StoreAt::kAgent) root.add(kBeats, 1);
      return alarm.raised().has_value();
    });
    if (const auto raised = alarm.raised()) throw_failure(*raised);
    if (!text) {
      failure.missing.push_back(rank);
      absent.push_back(std::to_string(rank));
      continue;
    }
    const json theirs = json::parse(*text);
    const std::string wrong = difference(ours, theirs);
    if (!wrong.empty()) {
      failure = {.kind = Failure::Kind::kConfig,
                 .text = fmt::format("rank {} on host {} does not fit rank 0: {}; start all ranks "
                                     "with the same program and flags",
                                     rank, theirs.at("host").get<std::string>(), wrong)};
      refuse(root, meeting.place.size, lookout, failure);
    }
    json& member = roll.emplace_back(json::object());
    for (const char* field : {"host", "machine", "node", "door"}) member[field] = theirs.at(field);
  }
  if (!absent.empty()) {
    failure.text =
        fmt::format("rank {} of {} did not join within {} s (store at {})", join(absent, ", "),
                    meeting.place.size, meeting.limit.count(), root.address().text());
    refuse(root, meeting.place.size, lookout, failure);
  }
  name_nodes(roll);
  root.set("roll", roll.dump());
  return roll;
}

}  // namespace

std::string Member::text(int rank) const {
  return fmt::format("rank {} ({} on host {})", rank, node, host);
}

void mark_job(const Store& root, const std::string& job_token) {
  root.set("job", job_token.empty() ? kNoToken : digest(job_token));
}

Store present_part(const Store& agents, const Place& place, Seconds limit) {
  const auto part = [&](std::int64_t number) {
    return agents.under(fmt::format("daso{}", number));
  };
  if (place.rank == 0) return part(agents.add(kParts, 1));
  const Deadline deadline(limit);
  std::int64_t number = 0;
  std::int64_t beats = 0;
  while (!deadline.passed()) {
    const std::int64_t newest = agents.add(kParts, 0);
    const std::int64_t heard = newest == 0 ? 0 : part(newest).add(kBeats, 0);
    if (newest == number && heard > beats) return part(number);
    number = newest;
    beats = heard;
    std::this_thread::sleep_for(2 * kBetweenReads);
  }
  throw PeerError(fmt::format("rank 0 did not come to the store at {} within {} s",
                              agents.address().text(), limit.count()));
}

void check_job(const Store& root, const Place& place, Seconds limit, Decisions* decisions) {
  const auto ended = [decisions] { return decisions != nullptr && decisions->ended(); };
  const auto job = await(root, "job", Deadline(limit), ended);
  if (!job) {
    if (ended()) throw PeerError("the view has ended before its first rank came");
    throw PeerError(
        fmt::format("the store at {} belongs to no job within {} s: rank 0 did not come",
                    root.address().text(), limit.count()));
  }
  const std::string ours = place.job_token.empty() ? kNoToken : digest(place.job_token);
  require(
      *job == ours,
      "the job token does not fit: the store at {} belongs to another job. This process (rank {} "
      "of {}) was given another rendezvous or job token than the ranks there",
      root.address().text(), place.rank, place.size);
}

std::vector<Member> meet(const Store& root, const Meeting& meeting, Alarm& alarm,
                         Lookout& lookout) {
  const Place& place = meeting.place;
  if (root.add(fmt::format("claim/{}", place.rank), 1) != 1) {
    throw ConfigError(
        fmt::format("rank {} is taken: two processes of this job call themselves so", place.rank));
  }
  // Names of files, which a configuration holds, need not be UTF-8.
  root.set(hello_key(place.rank),
           hello_of(meeting).dump(-1, ' ', false, json::error_handler_t::replace));
  json roll;
  if (place.rank == 0) {
    roll = gather_roll(root, meeting, alarm, lookout);
  } else {
    // Rank 0 speaks up when its own limit is over; a little later it is rank 0 that is missing.
    const auto text = await(root, "roll", Deadline(meeting.limit + Seconds(1)),
                            [&] { return alarm.raised().has_value(); });
    if (const auto raised = alarm.raised()) {
      try {
        root.add(kHeard, 1);
      } catch (const PeerError&) {
        // Rank 0 has not waited for us; we know the reason all the same.
      }
      throw_failure(*raised);
    }
    if (!text) {
      throw_failure(
          lookout.spread({.text = fmt::format("rank 0 did not join within {} s (store at {})",
                                              meeting.limit.count(), root.address().text()),
                          .missing = {0}}));
    }
    roll = json::parse(*text);
    require(static_cast<int>(roll.size()) == place.size,
            "this process was started as rank {} of {}, but the job at {} has {} ranks", place.rank,
            place.size, root.address().text(), roll.size());
  }
  std::vector<Member> members;
  for (const json& entry : roll) {
    members.push_back({.launch_rank = static_cast<int>(members.size()),
                       .host = entry.at("host"),
                       .node = entry.at("node")});
    const std::string door = entry.at("door");
    if (!door.empty()) members.back().door = parse_address(door);
  }
  return members;
}

std::vector<int> regroup(const Store& next, const std::vector<int>& survivors, int old_rank,
                         Seconds limit, const std::function<std::set<int>()>& gone) {
  next.append(kHere, fmt::format("{}\n", old_rank));
  const Deadline deadline(limit);
  // Who decides waits until its limit for those that are slow; the others wait a little longer.
  const Deadline last(limit + Seconds(1));
  std::optional<std::string> text;
  while (!(text = next.find(kMembers))) {
    if (last.passed()) throw PeerError("the ranks that are left did not find each other in time");
    std::vector<int> expected = survivors;
    std::erase_if(expected, [lost = gone()](int rank) { return lost.contains(rank); });
    if (!expected.empty() && expected.front() == old_rank) {
      std::set<int> here;
      for (const std::string& line : split(next.find(kHere).value_or(""), '\n')) {
        if (!line.empty()) here.insert(std::stoi(line));
      }
      const auto is_here = [&](int rank) { return here.contains(rank); };
      if (deadline.passed() || std::ranges::all_of(expected, is_here)) {
        std::erase_if(expected, [&](int rank) { return !is_here(rank); });
        next.set_once(kMembers, json(expected).dump());
        continue;
      }
    }
    std::this_thread::sleep_for(kBetweenReads);
  }
  auto members = json::parse(*text).get<std::vector<int>>();
  if (std::ranges::find(members, old_rank) == members.end()) {
    throw PeerError(fmt::format("the other ranks went on without rank {}: it was late", old_rank));
  }
  return members;
}

Topology topology_of(const std::vector<Member>& members, const std::vector<int>& node_of_rank) {
  std::vector<std::string> names;
  if (node_of_rank.empty()) {
    for (const Member& member : members) names.push_back(member.node);
    return Topology::from_names(names);
  }
  for (const Member& member : members) {
    const auto launch_rank = static_cast<std::size_t>(member.launch_rank);
    require(launch_rank < node_of_rank.size(),
            "node_of_rank names {} ranks, the world has more (rank {} is missing)",
            node_of_rank.size(), launch_rank);
    names.push_back(fmt::format("node{}", node_of_rank[launch_rank]));
  }
  return Topology::from_names(names);
}

}  // namespace daso
