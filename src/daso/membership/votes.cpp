// SPDX-License-Identifier: Apache-2.0
#include "daso/membership/votes.h"

#include <algorithm>

#include "daso/base/error.h"

namespace daso::membership {
namespace {

void insert_number(std::vector<ExchangeNumber>& numbers, ExchangeNumber number) {
  const auto place = std::ranges::lower_bound(numbers, number);
  if (place == numbers.end() || *place != number) numbers.insert(place, number);
}

void drop_below(std::vector<ExchangeNumber>& numbers, ExchangeNumber bound) {
  if (numbers.empty() || numbers.front() >= bound) return;
  numbers.erase(numbers.begin(), std::ranges::lower_bound(numbers, bound));
}

}  // namespace

Votes::Votes(const View& view, const Member& self)
    : own_{.next = view.first_exchange, .committed = view.first_exchange} {
  for (const Member& member : view.members) {
    if (member != self) peers_.push_back({member.node, own_});
  }
}

bool Votes::started(ExchangeNumber exchange) {
  if (frozen_ || exchange != own_.next) return false;
  require(own_.next - own_.committed < kMostInFlight,
          "exchange {} would be one of more than {} in flight; wait for {} first", exchange,
          kMostInFlight, own_.committed);
  ++own_.next;
  return true;
}

bool Votes::prepared(ExchangeNumber exchange) {
  if (frozen_ || exchange >= own_.next || exchange < own_.committed) return false;
  insert_number(own_.held, exchange);
  return true;
}

void Votes::heard(NodeId node, const Progress& progress) {
  const auto peer = std::ranges::find(peers_, node, &Peer::node);
  if (peer == peers_.end()) return;
  // An older word may come later: nothing is taken back.
  Progress& known = peer->progress;
  known.next = std::max(known.next, progress.next);
  known.committed = std::max(known.committed, progress.committed);
  for (const ExchangeNumber exchange : progress.held) insert_number(known.held, exchange);
  drop_below(known.held, known.committed);
}

std::vector<ExchangeNumber> Votes::take_commits() {
  std::vector<ExchangeNumber> commits;
  while (!frozen_ && own_.holds(own_.committed) &&
         std::ranges::all_of(
             peers_, [&](const Peer& peer) { return peer.progress.holds(own_.committed); })) {
    commits.push_back(own_.committed++);
  }
  if (!commits.empty()) drop_below(own_.held, own_.committed);
  return commits;
}

}  // namespace daso::membership
