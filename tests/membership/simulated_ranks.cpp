// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "membership/simulation.h"

// What launchers are told to do, and what their ranks do.
namespace daso::membership {
namespace {

void must_hold(bool holds, const char* what, unsigned which) {
  if (!holds) throw Violation(fmt::format("node {}: {}", which, what));
}

}  // namespace

void Simulation::perform(unsigned which) {
  Node& node = nodes_[which];
  for (Action& action : node.machine->take_actions()) {
    if (is_doomed(node, action)) return crash(which, /*seen=*/node.life % 2 == 0);
    std::visit([&](auto& one) { carry_out(which, std::move(one)); }, action);
    if (!node.machine) return;
  }
}

// Messages are counted by kind, and so are other things: 0 to 7 and 8 to 13.
bool Simulation::is_doomed(Node& node, const Action& action) const {
  if (!node.doom) return false;
  const auto* const send = std::get_if<Send>(&action);
  const std::size_t kind =
      send != nullptr ? send->message.body.index() : std::variant_size_v<Body> + action.index() - 1;
  return kind == node.doom->detail && --node.doom->other == 0;
}

void Simulation::carry_out(unsigned which, Send send) {
  if (const auto* const decided = std::get_if<Decided>(&send.message.body)) {
    history_.decided(decided->view);
  } else if (const auto* const accept = std::get_if<Accept>(&send.message.body)) {
    auto& proposed = proposed_[send.message.view];
    if (proposed.empty() || proposed.back() != accept->view) proposed.push_back(accept->view);
  }
  if (tell_ && !std::holds_alternative<Pulse>(send.message.body)) {
    tell(which, fmt::format("sends {} for view {} to {}", name_of(send.message.body),
                            send.message.view, send.to));
  }
  if (script_.seed % 16 == 0) {
    const auto read = decode(encode(send.message));
    must_hold(read == send.message, "what is read is not what was written", which);
  }
  for (bool again = true; again;) {
    again = network_.copies();
    const auto delay = network_.delay(which, send.to);
    if (!delay) continue;
    if (free_messages_.empty()) {
      free_messages_.push_back(messages_.size());
      messages_.emplace_back();
    }
    const std::size_t place = free_messages_.back();
    free_messages_.pop_back();
    messages_[place] = again ? send.message : std::move(send.message);
    schedule(*delay, Event::Kind::kMessage, send.to, 0, static_cast<std::int64_t>(place));
  }
}

void Simulation::carry_out(unsigned which, const Freeze& freeze) {
  tell(which, fmt::format("freezes view {}", freeze.view));
  // Mostly ranks stop at once; some take longer than a change of view waits.
  const double longest = network_.between(0, 1) < 0.05 ? 1 : 0.03;
  schedule(network_.between(0, longest), Event::Kind::kFrozen, which, freeze.view);
}

void Simulation::carry_out(unsigned which, const Merge& merge) {
  Node& node = nodes_[which];
  tell(which, fmt::format("merges {} of view {}", merge.exchange, merge.view));
  must_hold(node.frozen < merge.view || node.machine->view().number > merge.view ||
                node.machine->phase() == Membership::Phase::kEnded,
            "merges in a view that it has reported for", which);
  history_.merged(node.anchor, {merge.view, merge.exchange});
  ++node.anchor;
}

void Simulation::carry_out(unsigned which, const Abandon& abandon) {
  tell(which, fmt::format("abandons {} of view {}", abandon.exchange, abandon.view));
}

void Simulation::carry_out(unsigned which, const Enter& enter) {
  Node& node = nodes_[which];
  const View& view = enter.view;
  tell(which, "enters " + text(view));
  history_.decided(view);
  started_.resize(std::max<std::size_t>(started_.size(), view.number));
  const Member self{which, node.life};
  must_hold(contains(view.members, self), "enters a view that it is not in", which);
  must_hold(view.first_exchange > node.highest_started, "exchange numbers go back", which);
  const std::size_t begin = history_.begin_of(view.number);
  if (contains(view.joined, self)) {
    node.anchor = begin;
  } else {
    must_hold(node.anchor == begin, "enters a view with another anchor", which);
  }
  if (view.number > 1 && !contains(view.joined, self)) {
    must_hold(node.frozen + 1 == view.number, "enters a view that it has not reported for", which);
    must_hold(view.blocking && view.blocking->step >= node.frozen_step,
              "is ahead of the node whose state counts", which);
  }
}

void Simulation::carry_out(unsigned which, const Claim& claim) {
  if (witness_away_ > 0) return;
  tell(which, fmt::format("claims view {}", claim.view));
  tie_break_.try_emplace(claim.view, claim.half);
  schedule(network_.between(0.001, 0.02), Event::Kind::kClaimed, which, claim.view);
}

void Simulation::carry_out(unsigned which, const End& end) {
  Node& node = nodes_[which];
  const bool excluded = end.reason == End::Reason::kExcluded;
  tell(which, excluded                               ? "is excluded"
              : end.reason == End::Reason::kMinority ? "stops, without a majority"
                                                     : "has left");
  must_hold(node.machine->take_actions().empty(), "goes on after its end", which);
  if (end.reason == End::Reason::kLeft) left_.push_back({which, node.life});
  node = {.life = node.life + 1};
  if (excluded) schedule(network_.between(0.05, 0.3), Event::Kind::kRestart, which);
}

void Simulation::train(unsigned which) {
  schedule(network_.between(0.15, 0.35), Event::Kind::kTrain, which);
  Node& node = nodes_[which];
  Membership& machine = *node.machine;
  const View& view = machine.view();
  const bool trains = (machine.phase() == Membership::Phase::kActing ||
                       machine.phase() == Membership::Phase::kChanging) &&
                      node.frozen < view.number && !node.leaving;
  const ExchangeNumber exchange = machine.progress().next;
  if (!trains || exchange - machine.progress().committed >= script_.in_flight) return;
  must_hold(machine.started(exchange), "may not start the next exchange", which);
  must_hold(exchange > node.highest_started, "starts an old number", which);
  node.highest_started = exchange;
  auto& started = started_.at(view.number - 1);
  const auto place = static_cast<std::size_t>(exchange - view.first_exchange);
  if (started.size() <= place) started.resize(place + 1);
  started[place] |= 1U << which;
  schedule(network_.between(0.01, 0.1) * network_.slowness(), Event::Kind::kAnswer, which,
           view.number, exchange);
}

// The whole answer is there once all have started and can be reached. It may come after the view's
// end, to ranks that have not heard of it.
void Simulation::answer(unsigned which, ViewNumber number, ExchangeNumber exchange) {
  Membership& machine = *nodes_[which].machine;
  const View& view = machine.view();
  if (view.number != number || nodes_[which].ranks_gone) return;
  const auto place = static_cast<std::size_t>(exchange - view.first_exchange);
  const unsigned started = started_.at(number - 1).at(place);
  const bool whole = std::ranges::all_of(view.members, [&](const Member& member) {
    return (started >> member.node & 1) == 1 && network_.reaches(member.node, which);
  });
  if (!whole) {
    return schedule(network_.between(0.05, 0.15), Event::Kind::kAnswer, which, number, exchange);
  }
  if (machine.prepared(exchange)) history_.prepared({number, exchange}, which);
}

}  // namespace daso::membership
