// SPDX-License-Identifier: Apache-2.0
#include "daso/membership/view.h"

#include <fmt/format.h>

#include <algorithm>

namespace daso::membership {

bool contains(std::span<const Member> members, const Member& member) {
  return std::ranges::find(members, member) != members.end();
}

const Member* member_of(std::span<const Member> members, NodeId node) {
  const auto found = std::ranges::find(members, node, &Member::node);
  return found == members.end() ? nullptr : &*found;
}

void insert(std::vector<Member>& members, const Member& member) {
  const auto place = std::ranges::lower_bound(members, member);
  if (place == members.end() || *place != member) members.insert(place, member);
}

bool decides(std::span<const Member> electorate, std::span<const Member> voters,
             const std::optional<std::vector<Member>>& granted) {
  const auto votes = std::ranges::count_if(
      voters, [&](const Member& voter) { return contains(electorate, voter); });
  if (2 * static_cast<std::size_t>(votes) > electorate.size()) return true;
  return granted && 2 * granted->size() == electorate.size() &&
         std::ranges::all_of(*granted, [&](const Member& member) {
           return contains(electorate, member) && contains(voters, member);
         });
}

std::string text(const Member& member) {
  return fmt::format("{}.{}", member.node, member.incarnation);
}

std::string text(const View& view) {
  std::string out = fmt::format("view {} [", view.number);
  for (const Member& member : view.members) {
    out += fmt::format("{}{}", &member == view.members.data() ? "" : " ", text(member));
  }
  out += fmt::format("] from exchange {}", view.first_exchange);
  for (const Settled& settled : view.settled) {
    out += fmt::format(", {} {}", settled.exchange, settled.committed ? "committed" : "abandoned");
  }
  if (view.blocking) {
    out += fmt::format(", step {} of node {}", view.blocking->step, view.blocking->node);
  }
  for (const Member& member : view.joined) out += fmt::format(", {} joined", text(member));
  return out;
}

}  // namespace daso::membership
