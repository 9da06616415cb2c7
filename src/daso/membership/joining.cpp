// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "daso/membership/membership.h"

// Coming and going: what a joiner says and what members make of it; leaving on purpose.
namespace daso::membership {

void Membership::tick_as_joiner(Seconds now) {
  if (now < next_pulse_) return;
  next_pulse_ = now + options_.period;
  std::erase_if(heard_, [&](const Heard& one) { return now - one.when > options_.silence; });
  // A member that we cannot hear would have to go as soon as we came.
  const bool hears_all = std::ranges::all_of(view_.members, [&](const Member& member) {
    return member.node == self_.node ||
           std::ranges::find(heard_, member.node, &Heard::node) != heard_.end();
  });
  std::vector<NodeId> asked = contacts_;
  for (const Member& member : view_.members) {
    if (std::ranges::find(asked, member.node) == asked.end()) asked.push_back(member.node);
  }
  const std::optional<NodeId> donor = this->donor();
  for (const NodeId node : asked) {
    if (node == self_.node) continue;
    send(node, view_.number,
         Join{.ready = ready_ && hears_all && view_.number > 0,
              .copy_to = node == donor ? copy_to_ : ""});
  }
}

// The first member that it hears. Who finds no seat need not copy anything yet.
std::optional<NodeId> Membership::donor() const {
  if (ready_ || copy_to_.empty() || waits_for_seat()) return {};
  for (const Member& member : view_.members) {
    if (member.node == self_.node) continue;  // its predecessor
    if (std::ranges::find(heard_, member.node, &Heard::node) != heard_.end()) return member.node;
  }
  return {};
}

void Membership::receive_as_joiner(const Message& message, Seconds now) {
  std::erase_if(heard_, [&](const Heard& one) { return one.node == message.from.node; });
  heard_.push_back({message.from.node, now});
  if (const auto* const decided = std::get_if<Decided>(&message.body)) learn(decided->view, now);
  if (std::holds_alternative<NoCopy>(message.body)) ready();
}

void Membership::on(const Member& from, ViewNumber /*view*/, const Join& join, Seconds now) {
  send_view(from.node);
  if (phase_ == Phase::kLingering || from.node == self_.node) return;
  if (const Member* const known = member_of(view_.members, from.node)) {
    if (from.incarnation <= known->incarnation) return;  // it will learn that it is in, or too old
    watch_.died(from.node);                              // it has a successor
  }
  const auto place = std::ranges::find(candidates_, from.node,
                                       [](const Candidate& one) { return one.member.node; });
  if (place == candidates_.end()) {
    candidates_.push_back({from, join.ready, join.copy_to, now});
  } else if (place->member.incarnation <= from.incarnation) {
    *place = {from, join.ready, join.copy_to, now};
  }
  // Who is alone, or about to leave, has nothing that the others will have.
  const bool gives = gives_copies_ && view_.members.size() > 1 && !leaving_;
  if (!join.copy_to.empty() && !gives) send(from.node, view_.number, NoCopy{});
  change_if_due(now);
}

std::vector<std::string> Membership::copies_wanted() const {
  std::vector<std::string> places;
  for (const Candidate& one : candidates_) {
    if (!one.copy_to.empty()) places.push_back(one.copy_to);
  }
  return places;
}

std::vector<Member> Membership::ready_candidates() const {
  std::vector<Member> ready;
  if (!admitting_) return ready;
  for (const Candidate& one : candidates_) {
    if (one.ready) insert(ready, one.member);
  }
  return ready;
}

// The one that its own node has counts as free: it has a successor.
bool Membership::has_seat_for(const Member& candidate) const {
  return view_.members.size() < options_.seats ||
         member_of(view_.members, candidate.node) != nullptr;
}

void Membership::leave(Seconds now) {
  leaving_ = true;
  if (phase_ == Phase::kJoining) return end(End::Reason::kLeft);
  change_if_due(now);
}

void Membership::fail(Seconds now) {
  failed_ = true;
  leave(now);
}

// Who has left stays until the others know that it has: they may need its word to learn it.
void Membership::linger(Seconds now) {
  std::erase_if(contacts_,
                [&](NodeId node) { return std::ranges::find(informed_, node) != informed_.end(); });
  if (contacts_.empty() || now > linger_until_) return end(End::Reason::kLeft);
  if (now < next_pulse_) return;
  next_pulse_ = now + options_.period;
  for (const NodeId node : contacts_) send_view(node);
}

}  // namespace daso::membership
