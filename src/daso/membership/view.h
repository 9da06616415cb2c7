// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// The folder `membership` decides which nodes belong to a run and which exchanges count. It is
// pure: messages, reports and the time come in, messages and decisions go out. It knows no sockets,
// no threads and no clock, so that a test can try it in a simulated network. membership.h is where
// to begin; docs/membership.md tells it in prose.
//
// A view is a numbered set of member nodes. Views are decided one after the other, each once, by
// the launchers of the view before.
namespace daso::membership {

using NodeId = std::uint32_t;
using ViewNumber = std::uint64_t;
using ExchangeNumber = std::int64_t;

// One life of a node's launcher. A launcher that is started again has a higher incarnation, and is
// somebody else: it has forgotten what it promised, so that nothing it says may count as the word
// of the one before.
struct Member {
  NodeId node = 0;                // stable: the same whenever this node comes back
  std::uint64_t incarnation = 0;  // grows with every start of this node's launcher
  // clang-tidy 14 finds a 0 in what the compiler makes of it.
  auto operator<=>(const Member&) const = default;  // NOLINT(modernize-use-nullptr)
};

// What became of an exchange that was in flight when the view before ended.
struct Settled {
  ExchangeNumber exchange = 0;
  bool committed = false;  // false: abandoned, by all
  bool operator==(const Settled&) const = default;
};

// Where blocking phases go on: members that have not finished this step copy the node's state.
struct BlockingStep {
  std::int64_t step = 0;  // the last that any member has finished
  NodeId node = 0;        // the lowest that has
  bool operator==(const BlockingStep&) const = default;
};

// A decided value. Number 1 is the view that a run begins with, which nobody decides: it is what
// its launchers found when they met. A view without members is the end of a run that all have left.
struct View {
  ViewNumber number = 0;
  std::vector<Member> members;           // ascending, each node once
  ExchangeNumber first_exchange = 0;     // K: the first exchange number that belongs to it
  std::vector<Settled> settled;          // of the view before, ascending, without gaps up to K
  std::optional<BlockingStep> blocking;  // if a member was in a blocking phase
  std::vector<Member> joined;            // those of the members that the view before had not
  bool operator==(const View&) const = default;
};

bool contains(std::span<const Member> members, const Member& member);
// The member that this node has there, whichever incarnation; null: none.
const Member* member_of(std::span<const Member> members, NodeId node);
// Keeps the order; a second time changes nothing.
void insert(std::vector<Member>& members, const Member& member);

// Whether `voters` may decide for the launchers of a view: more than half of its members, or a half
// to which the tie-break was granted. The tie-break grants one half for each view number, for good,
// so any two sets that decide have a member in common.
bool decides(std::span<const Member> electorate, std::span<const Member> voters,
             const std::optional<std::vector<Member>>& granted);

std::string text(const Member& member);  // "3.1": node 3, incarnation 1
std::string text(const View& view);

}  // namespace daso::membership
