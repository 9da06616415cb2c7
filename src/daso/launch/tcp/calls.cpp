// SPDX-License-Identifier: Apache-2.0
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "daso/base/error.h"
#include "daso/launch/tcp/greeting.h"
#include "daso/launch/tcp/operator.h"

// Connections that begin: who is called when, who calls, and what both say first.
namespace daso {
namespace {

constexpr Seconds kFirstPause{0.1};
constexpr Seconds kLongestPause{1};
constexpr int kAdmittedAtOnce = 16;    // then those who are in have their turn
constexpr std::size_t kMostLines = 4;  // to one node

tcp::Introduction introduction(membership::NodeId from, membership::NodeId to) {
  return {.from = static_cast<int>(from),
          .to = static_cast<int>(to),
          .service = tcp::Service::kLaunchers};
}

}  // namespace

using membership::NodeId;

void Switchboard::Operator::know(NodeId number, const Address& address) {
  if (number == options_.self.node) return;
  Node& node = nodes_[number];
  node.address = address;
  node.pause = Seconds(0);
  node.call_at = Clock::now();
  call(number, node);
}

void Switchboard::Operator::forget(NodeId number) {
  if (has_line(number)) {
    nodes_[number].address.reset();
  } else {
    nodes_.erase(number);
  }
  const std::lock_guard lock(mutex_);
  troubles_.erase(number);
}

// --- those who call ---

void Switchboard::Operator::admit_strangers() {
  for (int i = 0; i < kAdmittedAtOnce; ++i) {
    FileDescriptor socket(
        ::accept4(options_.listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.open()) {
      // Without descriptors nobody can be let in, and the poller would say so all the time.
      deaf_ = errno == EMFILE || errno == ENFILE;
      if (deaf_) watch(EPOLL_CTL_MOD, options_.listening.get(), 0);
      return;
    }
    make_room_for_stranger();
    watch(EPOLL_CTL_ADD, socket.get(), EPOLLIN);
    callers_.emplace_back(std::move(socket),
                          tcp::Handshake::accept(options_.key, static_cast<int>(options_.self.node),
                                                 /*view=*/0, tcp::Service::kLaunchers),
                          options_.limits.handshake);
  }
}

// The one goes that has had the longest time to prove itself. A member needs a round trip for that;
// if the one who comes had to go, a few who say nothing would keep all members out.
void Switchboard::Operator::make_room_for_stranger() {
  const auto is_stranger = [](const tcp::Caller& one) { return !one.dialled(); };
  if (std::ranges::count_if(callers_, is_stranger) < options_.limits.strangers) return;
  callers_.erase(std::ranges::find_if(callers_, is_stranger));
}

// --- those who are called ---

void Switchboard::Operator::call(NodeId number, Node& node) {
  if (!node.address || node.calling || has_line(number)) return;
  try {
    tcp::Caller caller = tcp::Caller::dial(
        *node.address, tcp::Handshake::dial(options_.key, introduction(options_.self.node, number)),
        options_.limits.handshake);
    watch(EPOLL_CTL_ADD, caller.descriptor(), EPOLLIN | EPOLLOUT);
    callers_.push_back(std::move(caller));
    node.calling = true;
  } catch (const Error& problem) {  // no descriptor is left, or the address is none
    tell_trouble(number, problem.what());
    call_later(node);
  }
}

void Switchboard::Operator::call_later(Node& node) {
  node.pause = std::clamp(2 * node.pause, kFirstPause, kLongestPause);
  node.call_at = Clock::now() + std::chrono::duration_cast<Clock::duration>(node.pause);
}

// --- both ---

void Switchboard::Operator::advance(int descriptor) {
  const auto caller = std::ranges::find(callers_, descriptor, &tcp::Caller::descriptor);
  if (caller == callers_.end()) return;
  const tcp::Caller::State state = caller->advance();
  if (state == tcp::Caller::State::kGoesOn) {
    watch(EPOLL_CTL_MOD, descriptor, caller->wants_to_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
    return;
  }
  if (caller->dialled()) {
    const auto number = static_cast<NodeId>(caller->introduction().to);
    Node& node = nodes_[number];
    node.calling = false;
    if (state == tcp::Caller::State::kFailed) {
      tell_trouble(number, caller->problem());
      call_later(node);
    }
  }
  if (state == tcp::Caller::State::kProved) welcome(*caller);
  callers_.erase(caller);
}

void Switchboard::Operator::welcome(tcp::Caller& caller) {
  const tcp::Introduction& who = caller.introduction();
  const auto number = static_cast<NodeId>(caller.dialled() ? who.to : who.from);
  if (number == options_.self.node) return tell_trouble(number, "another launcher has this number");
  const auto to_it = [&](const Connected& one) { return one.line.node() == number; };
  if (std::ranges::count_if(lines_, to_it) >= std::ptrdiff_t{kMostLines}) {
    part(*std::ranges::find_if(lines_, to_it), "it has called again");
  }
  watch(EPOLL_CTL_MOD, caller.descriptor(), EPOLLIN);
  lines_.push_back({.line = {caller.take_socket(), number, options_.limits.stalled},
                    .greeting_due = Deadline(options_.limits.handshake)});
  lines_.back().line.push(tcp::framed_letter(kGreetingTag, encode({.from = options_.self,
                                                                   .greeting = options_.greeting})),
                          options_.limits.queued_bytes);
}

void Switchboard::Operator::take_greeting(Connected& one, std::span<const std::byte> bytes) {
  const std::optional<SignedGreeting> said = decode_greeting(bytes);
  if (!said || said->from.node != one.line.node())
    return part(one, "it greets like nobody of ours");
  Node& node = nodes_[said->from.node];
  const bool has_changed = node.incarnation != said->from.incarnation;
  if (has_changed && node.incarnation > said->from.incarnation) {
    return part(one, fmt::format("{} calls, but it has a successor", text(said->from)));
  }
  // The owner may know a better way than the node itself, but not for a successor.
  const bool is_successor = has_changed && node.incarnation;
  if (said->greeting.address.port != 0 && (!node.address || is_successor)) {
    node.address = said->greeting.address;
  }
  node.incarnation = said->from.incarnation;
  node.pause = Seconds(0);
  one.member = said->from;
  {
    const std::lock_guard lock(mutex_);
    troubles_.erase(said->from.node);
  }
  if (is_successor) replace_older(said->from);
  if (events_.on_greeting) events_.on_greeting(said->from, said->greeting);
}

// A node has one life at a time: what is left of earlier ones is certainly dead.
void Switchboard::Operator::replace_older(const membership::Member& member) {
  for (Connected& one : lines_) {
    const bool older = one.member && one.line.node() == member.node && *one.member < member;
    if (!older || one.line.leaving()) continue;
    one.line.say_goodbye(Deadline(options_.limits.leaving));
    if (!one.goodbye && events_.on_reset) events_.on_reset(*one.member);
  }
}

}  // namespace daso
