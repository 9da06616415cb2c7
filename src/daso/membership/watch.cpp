// SPDX-License-Identifier: Apache-2.0
#include "daso/membership/watch.h"

#include <algorithm>
#include <utility>

namespace daso::membership {

Watch::Watch(const View& view, const Member& self, Seconds now) : self_(self) {
  for (const Member& member : view.members) {
    if (member != self) peers_.push_back({.member = member, .heard = now});
  }
}

const Watch::Peer* Watch::find(NodeId node) const {
  const auto peer =
      std::ranges::find(peers_, node, [](const Peer& one) { return one.member.node; });
  return peer == peers_.end() ? nullptr : &*peer;
}

Watch::Peer* Watch::find(NodeId node) { return const_cast<Peer*>(std::as_const(*this).find(node)); }

void Watch::heard(NodeId node, Seconds now) {
  Peer* const peer = find(node);
  if (peer == nullptr) return;
  peer->heard = now;
  peer->silent = false;
}

void Watch::died(NodeId node) {
  if (Peer* const peer = find(node)) peer->dead = true;
}

void Watch::look(Seconds now, Seconds silence) {
  for (Peer& peer : peers_) peer.silent = now - peer.heard > silence;
}

void Watch::forgive(Seconds now) {
  for (Peer& peer : peers_) {
    peer.heard = now;
    peer.silent = false;
  }
}

bool Watch::lost(NodeId node) const {
  const Peer* const peer = find(node);
  return peer != nullptr && peer->lost();
}

bool Watch::dead(NodeId node) const {
  const Peer* const peer = find(node);
  return peer != nullptr && peer->dead;
}

std::vector<Member> Watch::dead() const {
  std::vector<Member> members;
  for (const Peer& peer : peers_) {
    if (peer.dead) insert(members, peer.member);
  }
  return members;
}

bool Watch::any_lost() const { return std::ranges::any_of(peers_, &Peer::lost); }

std::vector<Member> Watch::reachable() const {
  std::vector<Member> members{self_};
  for (const Peer& peer : peers_) {
    if (!peer.lost()) insert(members, peer.member);
  }
  return members;
}

}  // namespace daso::membership
