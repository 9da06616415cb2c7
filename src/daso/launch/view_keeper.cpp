// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/view_keeper.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/base/thread_name.h"
#include "daso/launch/incarnation.h"

namespace daso {
namespace {

using membership::Member;
using membership::Membership;
using membership::NodeId;
using membership::View;

// From an error between nodes until the view is made anew: mostly a loss explains it before.
constexpr Seconds kForCause{0.5};

// A node that leaves does so after its next exchange, so that the others have what it has learned,
// but no later than this: there may be none.
constexpr Seconds kForExchange{5};

// What launchers say besides what their memberships do: the run has come to its end; this node was
// told to leave.
const std::vector<std::byte> kFinished = {std::byte{1}};
const std::vector<std::byte> kLeaves = {std::byte{2}};

}  // namespace

ViewKeeper::ViewKeeper(ViewKeeperOptions options)
    : options_(std::move(options)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const std::uint64_t now = options_.others ? incarnation_by_time() : 0;
  for (const int node : options_.own) {
    nodes_[node].incarnation = now;
    nodes_[node].waits = stands_by(node);
  }
}

ViewKeeper::~ViewKeeper() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  post([] {});
  thread_.join();  // which alone uses the switchboard
}

FileDescriptor ViewKeeper::open_line(int node, int local_rank) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw Error(fmt::format("cannot open a line to a rank: {}", std::strerror(errno)));
  }
  auto line = std::make_shared<RankLine>(FileDescriptor(ends[0]));
  post([this, node, local_rank, line] { nodes_.at(node).lines[local_rank] = std::move(*line); });
  return FileDescriptor(ends[1]);
}

void ViewKeeper::begin() {
  post([this] { options_.others ? connect() : begin_first_view(); });
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  name_thread(thread_.native_handle(), "views");
}

void ViewKeeper::connect() {
  const OtherLaunchers& others = *options_.others;
  const int own = options_.own.front();
  met_ = others.joins;
  nodes_.at(own).waits = others.joins || stands_by(own);
  if (options_.make_tie_break) {
    const Member self{.node = static_cast<NodeId>(own), .incarnation = nodes_.at(own).incarnation};
    tie_breaker_.emplace("tie-break");
    tie_breaker_->post([this, self] { tie_break_ = options_.make_tie_break(self); });
  }
  SwitchboardEvents events;
  events.on_greeting = [this](const Member& member, const Greeting& greeting) {
    post([this, member, greeting] { greet(member, greeting); });
  };
  events.on_message = [this, own](const Member& from, std::span<const std::byte> bytes) {
    if (std::ranges::equal(bytes, kFinished)) return post([this] { options_.on_finished(); });
    if (std::ranges::equal(bytes, kLeaves)) {
      return post([this, from] { membership::insert(leavers_, from); });
    }
    const std::optional<membership::Message> message = membership::decode(bytes);
    if (!message) return;
    post([this, own, message] {
      Node& node = nodes_.at(own);
      if (node.membership) node.membership->receive(*message, since(start_));
    });
  };
  events.on_reset = [this, own](const Member& member) {
    post([this, own, member] {
      Node& node = nodes_.at(own);
      if (!node.membership) return;
      const Member* lost = member_of(node.membership->view().members, member.node);
      if (lost == nullptr || !same_launcher(*lost, member)) return;
      const Member life = *lost;
      node.membership->died(life, since(start_));
    });
  };
  switchboard_.emplace(SwitchboardOptions{.self = {.node = static_cast<NodeId>(own),
                                                   .incarnation = nodes_.at(own).incarnation},
                                          .key = others.key,
                                          .listening = FileDescriptor(others.listening),
                                          .greeting = {.text = options_.store.text()},
                                          .nodes = others.nodes},
                       std::move(events));
}

void ViewKeeper::greet(const Member& member, const Greeting& greeting) {
  known_[static_cast<int>(member.node)] = {member, parse_address(greeting.text)};
  if (!met_ && known_.size() + 1 == options_.ranks_per_node.size()) begin_first_view();
}

void ViewKeeper::begin_first_view() {
  met_ = true;
  View first{.number = 1};
  for (int node = 0; node < static_cast<int>(options_.ranks_per_node.size()); ++node) {
    if (stands_by(node)) continue;
    const auto own = nodes_.find(node);
    first.members.push_back(own == nodes_.end()
                                ? known_.at(node).member
                                : Member{static_cast<NodeId>(node), own->second.incarnation});
  }
  for (auto& [number, node] : nodes_) {
    if (stands_by(number)) continue;
    node.membership.emplace(options_.rules, Member{static_cast<NodeId>(number), node.incarnation},
                            first, since(start_));
  }
}

void ViewKeeper::tell_others_of_end() {
  if (!options_.others) return;
  std::promise<void> told;
  post([&] {
    for (std::size_t node = 0; node < options_.ranks_per_node.size(); ++node) {
      switchboard_->send(static_cast<NodeId>(node), kFinished);
    }
    told.set_value();
  });
  told.get_future().wait();
}

std::string ViewKeeper::missing() {
  if (!options_.others) return "";
  std::promise<std::string> found;
  post([&] {
    std::vector<std::string> texts;
    for (int node = 0; !met_ && node < static_cast<int>(options_.ranks_per_node.size()); ++node) {
      if (nodes_.contains(node) || known_.contains(node)) continue;
      const std::string why = switchboard_->trouble(static_cast<NodeId>(node));
      texts.push_back(fmt::format("node{}{}", node, why.empty() ? "" : fmt::format(" ({})", why)));
    }
    found.set_value(daso::join(texts, ", "));
  });
  return found.get_future().get();
}

void ViewKeeper::lost(int node) {
  post([this, node] { lose(node); });
}

void ViewKeeper::come_back(int node) {
  post([this, node] {
    Node& own = nodes_.at(node);
    own.waits = true;
    own.unfit = false;
    own.trouble.reset();
    own.outcomes.clear();
    own.copy_to.clear();
    ++own.incarnation;
    const std::lock_guard lock(mutex_);
    entered_.erase(node);
  });
}

void ViewKeeper::finished(int node) {
  post([this, node] { nodes_.at(node).finished = true; });
}

void ViewKeeper::announce_leaving(int node) {
  post([this, node] {
    membership::insert(leavers_, {static_cast<NodeId>(node), nodes_.at(node).incarnation});
  });
}

void ViewKeeper::leave(int node) {
  post([this, node] { nodes_.at(node).leaves_by = since(start_) + kForExchange; });
}

void ViewKeeper::vanish() {
  if (!options_.others) return;
  std::promise<void> gone;
  post([&] {
    switchboard_->abort();
    gone.set_value();
  });
  gone.get_future().wait();
}

std::vector<std::string> ViewKeeper::take_notices() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notices_, {});
}

std::vector<ViewKeeper::Unfit> ViewKeeper::take_unfit() {
  const std::lock_guard lock(mutex_);
  return std::exchange(unfit_, {});
}

bool ViewKeeper::has_entered(int node) const {
  const std::lock_guard lock(mutex_);
  return entered_.contains(node);
}

void ViewKeeper::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
}

void ViewKeeper::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    wait_for_news();
    take_tasks();
    read_lines();
    tick();
    act();
  }
}

void ViewKeeper::wait_for_news() {
  std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
  for (const auto& [number, node] : nodes_) {
    for (const auto& [local, line] : node.lines) {
      if (line.open()) polled.push_back({line.descriptor(), POLLIN, 0});
    }
  }
  const auto at_most = whole_milliseconds(options_.rules.period / 2).count();
  ::poll(polled.data(), polled.size(), static_cast<int>(at_most));
  std::uint64_t count = 0;
  static_cast<void>(!::read(wake_.get(), &count, sizeof count));
}

void ViewKeeper::take_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const auto& task : tasks) task();
}

void ViewKeeper::tick() {
  const Seconds now = since(start_);
  watch_ranks(now);
  for (auto& [number, node] : nodes_) {
    if (!node.membership) continue;
    renew_if_due(node, now);
    if (node.leaves_by && now >= *node.leaves_by) node.membership->leave(now);
    node.membership->tick(now);
    keep_waiting(node, now);
  }
  if (options_.others) count_staying();
}

void ViewKeeper::count_staying() {
  const int own = options_.own.front();
  const Node& node = nodes_.at(own);
  if (!node.membership || leavers_.empty()) return;
  const auto is_told = [&](const Member& member) {
    return std::ranges::any_of(leavers_,
                               [&](const Member& leaver) { return same_launcher(member, leaver); });
  };
  const std::vector<Member>& members = node.membership->view().members;
  staying_ = static_cast<int>(std::ranges::count_if(members, std::not_fn(is_told)));
  const Seconds now = since(start_);
  const Member self{static_cast<NodeId>(own), node.incarnation};
  if (!is_told(self) || now < next_word_of_leaving_) return;
  next_word_of_leaving_ = now + options_.rules.period;
  for (const Member& member : members) {
    if (member.node != self.node) switchboard_->send(member.node, kLeaves);
  }
}

void ViewKeeper::renew_if_due(Node& node, Seconds now) {
  if (!node.trouble || now - node.trouble->when < kForCause) return;
  const bool current = node.membership->view().number == node.trouble->view;
  node.trouble.reset();
  if (current && !lose_finished()) node.membership->renew(now);
}

bool ViewKeeper::lose_finished() {
  bool any = false;
  for (auto& [number, node] : nodes_) {
    if (!node.finished || !node.membership) continue;
    lose(number);
    any = true;
  }
  return any;
}

void ViewKeeper::declare_unfit(int number, Node& node, std::string why) {
  if (std::exchange(node.unfit, true)) return;
  const std::lock_guard lock(mutex_);
  unfit_.push_back({.node = number, .why = std::move(why)});
}

void ViewKeeper::act() {
  for (bool idle = false; !idle;) {
    idle = true;
    for (auto& [number, node] : nodes_) {
      if (!node.membership) continue;
      const std::vector<membership::Action> actions = node.membership->take_actions();
      for (const membership::Action& action : actions) perform(number, node, action);
      idle = idle && actions.empty();
      answer(number, node);
    }
    for (const auto& [to, message] : std::exchange(mail_, {})) {
      Node& node = nodes_.at(to);
      if (node.membership) node.membership->receive(message, since(start_));
      idle = false;
    }
  }
}

void ViewKeeper::perform(int number, Node& node, const membership::Action& action) {
  const Seconds now = since(start_);
  if (const auto* send = std::get_if<membership::Send>(&action)) {
    const int to = static_cast<int>(send->to);
    if (nodes_.contains(to)) {
      mail_.emplace_back(to, send->message);
    } else if (switchboard_) {
      switchboard_->send(send->to, membership::encode(send->message));
    }
  } else if (const auto* freeze = std::get_if<membership::Freeze>(&action)) {
    // Ranks ask before they start anything: what has been started and prepared is known here.
    tell_all(node, fmt::format("ended {}", freeze->view));
    node.membership->frozen(freeze->view, std::nullopt, now);
  } else if (const auto* merge = std::get_if<membership::Merge>(&action)) {
    node.outcomes[merge->exchange] = true;
    // Nobody asks for one that is older than all that can be in flight.
    const auto old = merge->exchange - membership::kMostInFlight;
    node.outcomes.erase(node.outcomes.begin(), node.outcomes.lower_bound(old));
    if (node.leaves_by) node.membership->leave(now);
  } else if (const auto* abandon = std::get_if<membership::Abandon>(&action)) {
    node.outcomes[abandon->exchange] = false;
  } else if (const auto* enter = std::get_if<membership::Enter>(&action)) {
    std::erase_if(leavers_, [&](const Member& one) {  // it is back
      const Member* const there = member_of(enter->view.members, one.node);
      return there != nullptr && !same_launcher(*there, one);
    });
    if (enter->view.number > last_told_) {
      last_told_ = enter->view.number;
      members_ = static_cast<int>(enter->view.members.size());
      note(enter->view);
      if (options_.on_view) options_.on_view(enter->view);
    }
  } else if (const auto* claim = std::get_if<membership::Claim>(&action)) {
    this->claim(number, *claim);
  } else if (const auto* end = std::get_if<membership::End>(&action)) {
    if (end->reason == membership::End::Reason::kMinority) return be_cut_off(node);
    const bool left = end->reason == membership::End::Reason::kLeft;
    node.left = left && node.leaves_by;
    if (!left) declare_unfit(number, node, "the others went on without it");
  }
}

// Asks whoever breaks ties, one claim at a time: it is made again while there is no answer.
void ViewKeeper::claim(int number, const membership::Claim& claim) {
  const View view = nodes_.at(number).membership->view();
  if (!tie_breaker_) {
    // All launchers that could claim are this one.
    const auto first = claims_.try_emplace(claim.view, claim.half).first;
    return nodes_.at(number).membership->claimed(claim.view, first->second, since(start_));
  }
  if (std::exchange(claiming_, true)) return;
  tie_breaker_->post([this, number, view, claim] {
    const std::optional<std::vector<Member>> first = tie_break_->claim(view, claim.half);
    if (!first) {
      const std::lock_guard lock(mutex_);
      notices_.push_back(fmt::format("nobody says which half of view {} goes on: {}", view.number,
                                     tie_break_->trouble()));
    }
    post([this, number, claim, first] {
      claiming_ = false;
      Node& node = nodes_.at(number);
      if (first && node.membership) {
        node.membership->claimed(claim.view, *first, since(start_));
      }
    });
  });
}

void ViewKeeper::be_cut_off(Node& node) {
  node.cut_off = true;
  tell_all(node, fmt::format("ended {}", node.membership->view().number));
  cut_off_ = true;
}

void ViewKeeper::note(const View& view) {
  DecidedView& decided = decided_.emplace_back();
  decided.number = static_cast<std::int64_t>(view.number);
  decided.first_exchange = view.first_exchange;
  for (const membership::Settled& one : view.settled) {
    if (!one.committed) decided.abandoned.push_back(one.exchange);
  }
}

void ViewKeeper::lose(int number) {
  Node& node = nodes_.at(number);
  node.lines.clear();
  node.waits = false;
  if (!node.membership) return;
  if (node.membership->phase() == Membership::Phase::kEnded) return node.membership.reset();
  if (options_.others) return node.membership->fail(since(start_));  // it still has a say
  const Member gone = node.membership->self();
  node.membership.reset();
  bool anybody = false;
  for (auto& [other, peer] : nodes_) {
    if (!peer.membership) continue;
    peer.membership->died(gone, since(start_));
    const Membership::Phase phase = peer.membership->phase();
    anybody =
        anybody || phase == Membership::Phase::kActing || phase == Membership::Phase::kChanging;
  }
  if (!anybody) nobody_left_ = true;
}

void ViewKeeper::join(int number) {
  Node& node = nodes_.at(number);
  node.waits = false;
  std::vector<NodeId> contacts;
  for (std::size_t other = 0; other < options_.ranks_per_node.size(); ++other) {
    if (static_cast<int>(other) != number) contacts.push_back(static_cast<NodeId>(other));
  }
  const Member self{.node = static_cast<NodeId>(number), .incarnation = node.incarnation};
  node.membership.emplace(options_.rules, self, contacts, since(start_));
  if (node.copy_to.empty()) return node.membership->ready();
  node.membership->ask_copy(node.copy_to);
}

}  // namespace daso
