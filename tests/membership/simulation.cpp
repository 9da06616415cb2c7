// SPDX-License-Identifier: Apache-2.0
#include "membership/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace daso::membership {
namespace {

constexpr double kPeriod = 0.3;
constexpr Options kOptions{.period = Seconds(kPeriod),
                           .silence = Seconds(1),
                           .report = Seconds(0.8),
                           .retry = Seconds(0.4),
                           .give_up = Seconds(1.5)};
// From the last fault on: time to suspect, to give up or to decide, to come back, and to train.
constexpr double kQuiet = 7;
constexpr double kLastPart = 1.5;  // in which something must be committed

View first_view(unsigned nodes) {
  View view{.number = 1};
  for (unsigned node = 0; node < nodes; ++node) view.members.push_back({node, 1});
  return view;
}

}  // namespace

Simulation::Simulation(const Script& script, bool tell)
    : script_(script),
      tell_(tell),
      network_(script.seed, script.slowness),
      history_(first_view(script.nodes)),
      nodes_(script.nodes),
      started_(1) {}

std::optional<std::string> Simulation::run() try {
  Options options = kOptions;
  options.tie_break = script_.tie_break;
  for (unsigned which = 0; which < script_.nodes; ++which) {
    nodes_[which].life = 1;
    nodes_[which].machine.emplace(options, Member{which, 1}, history_.latest(), Seconds(0));
    schedule(network_.between(0, kPeriod), Event::Kind::kTick, which);
    schedule(network_.between(0, kPeriod), Event::Kind::kTrain, which);
    perform(which);
  }
  for (std::size_t i = 0; i < script_.faults.size(); ++i) {
    schedule(script_.faults[i].at, Event::Kind::kFault, 0, 0, static_cast<std::int64_t>(i));
  }
  const double quiet = script_.quiet_from();
  const auto run_until = [&](double time) {
    while (!queue_.empty() && queue_.front().time <= time) {
      std::ranges::pop_heap(queue_, std::greater<>());
      const Event event = queue_.back();
      queue_.pop_back();
      now_ = event.time;
      ++events_done_;
      happen(event);
    }
    now_ = time;
  };
  run_until(quiet);
  for (Node& node : nodes_) node.doom.reset();
  demanded_ = progress_is_due();
  run_until(quiet + kQuiet - kLastPart);
  const std::size_t commits_before = history_.size();
  run_until(quiet + kQuiet);
  check_end(commits_before);
  return std::nullopt;
} catch (const Violation& violation) {
  return fmt::format("at {:.3f} s: {}", now_, violation.what());
}

void Simulation::schedule(double delay, Event::Kind kind, unsigned node, ViewNumber view,
                          std::int64_t number) {
  push({.time = now_ + delay,
        .kind = kind,
        .node = static_cast<std::uint8_t>(node),
        .life = static_cast<std::uint32_t>(nodes_[node].life),
        .view = view,
        .number = number});
}

void Simulation::push(Event event) {
  event.order = order_++;
  queue_.push_back(event);
  std::ranges::push_heap(queue_, std::greater<>());
}

void Simulation::happen(const Event& event) {
  if (event.kind == Event::Kind::kFault) {
    return begin_fault(script_.faults[static_cast<std::size_t>(event.number)]);
  }
  if (event.kind == Event::Kind::kFaultEnds) {
    const Fault& fault = script_.faults[static_cast<std::size_t>(event.number)];
    if (fault.kind == Fault::Kind::kNoWitness) --witness_away_;
    return network_.end(fault, script_.nodes);
  }
  if (event.kind == Event::Kind::kRestart) return come_back(event.node);
  Node& node = nodes_[event.node];
  const bool there =
      node.machine.has_value() && (event.kind == Event::Kind::kMessage || event.life == node.life);
  if (there && now_ < node.paused_until) {
    Event later = event;
    later.time = node.paused_until + network_.between(0, 0.005);
    return push(later);
  }
  if (there) happen_to(node, event);
  if (event.kind == Event::Kind::kMessage) {
    free_messages_.push_back(static_cast<std::size_t>(event.number));
  }
  if (there) perform(event.node);
}

void Simulation::happen_to(Node& node, const Event& event) {
  Membership& machine = *node.machine;
  const Seconds now(now_);
  switch (event.kind) {
    case Event::Kind::kMessage:
      return machine.receive(messages_[static_cast<std::size_t>(event.number)], now);
    case Event::Kind::kTick:
      schedule(kPeriod * network_.between(1, 1.05), event.kind, event.node);
      return machine.tick(now);
    case Event::Kind::kTrain:
      return train(event.node);
    case Event::Kind::kAnswer:
      return answer(event.node, event.view, event.number);
    case Event::Kind::kFrozen:
      if (machine.view().number != event.view) return;
      node.frozen = event.view;
      node.frozen_step = static_cast<std::int64_t>(node.anchor);
      return machine.frozen(event.view, node.frozen_step, now);
    case Event::Kind::kClaimed:
      return machine.claimed(event.view, tie_break_.at(event.view), now);
    case Event::Kind::kDied:
      return machine.died({static_cast<NodeId>(event.number), event.view}, now);
    case Event::Kind::kReady:
      return machine.ready();
    case Event::Kind::kLeave:
      node.leaving = true;
      node.ranks_gone = event.number != 0;
      return node.ranks_gone ? machine.fail(now) : machine.leave(now);
    case Event::Kind::kRenew:
      return machine.renew(now);
    default:
      return;
  }
}

void Simulation::begin_fault(const Fault& fault) {
  Node& node = nodes_[fault.node];
  switch (fault.kind) {
    case Fault::Kind::kCrash:
      return crash(fault.node, /*seen=*/true);
    case Fault::Kind::kPowerLoss:
      return crash(fault.node, /*seen=*/false);
    case Fault::Kind::kCrashAt:
      node.doom = fault;
      return;
    case Fault::Kind::kRestart:
      return come_back(fault.node);
    case Fault::Kind::kPause:
      node.paused_until = std::max(node.paused_until, now_ + fault.length);
      return;
    case Fault::Kind::kFalseDeath:
      schedule(0, Event::Kind::kDied, fault.node, nodes_[fault.other].life, fault.other);
      if (fault.detail != 0) {
        schedule(0, Event::Kind::kDied, fault.other, node.life, fault.node);
      }
      return;
    case Fault::Kind::kLeave:
      return schedule(0, Event::Kind::kLeave, fault.node);
    case Fault::Kind::kRanksDie:
      return schedule(0, Event::Kind::kLeave, fault.node, 0, 1);
    case Fault::Kind::kRenew:
      return schedule(0, Event::Kind::kRenew, fault.node);
    case Fault::Kind::kNoWitness:
      ++witness_away_;
      break;
    default:
      network_.begin(fault, script_.nodes);
  }
  schedule(fault.length, Event::Kind::kFaultEnds, 0, 0, &fault - script_.faults.data());
}

void Simulation::crash(unsigned which, bool seen) {
  Node& node = nodes_[which];
  if (!node.machine) return;
  tell(which, "is gone");
  for (unsigned other = 0; seen && other < script_.nodes; ++other) {
    const auto delay = network_.delay(which, other);
    if (other != which && delay) {
      schedule(*delay, Event::Kind::kDied, other, node.life, static_cast<std::int64_t>(which));
    }
  }
  node = {.life = node.life + 1};
}

void Simulation::come_back(unsigned which) {
  Node& node = nodes_[which];
  if (node.machine) return;
  node = {.life = node.life + 1};
  std::vector<NodeId> contacts;
  for (unsigned other = 0; other < script_.nodes; ++other) contacts.push_back(other);
  Options options = kOptions;
  options.tie_break = script_.tie_break;
  node.machine.emplace(options, Member{which, node.life}, contacts, Seconds(now_));
  tell(which, "is back");
  schedule(0, Event::Kind::kTick, which);
  schedule(network_.between(0, kPeriod), Event::Kind::kTrain, which);
  schedule(network_.between(0, 0.5), Event::Kind::kReady, which);
}

void Simulation::tell(unsigned which, const std::string& what) const {
  if (tell_) fmt::print("{:8.3f} s  node {}.{} {}\n", now_, which, nodes_[which].life, what);
}

}  // namespace daso::membership
