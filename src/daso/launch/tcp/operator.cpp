// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/tcp/operator.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>

#include "daso/base/error.h"
#include "daso/launch/tcp/greeting.h"
#include "daso/membership/message.h"

namespace daso {

using membership::NodeId;

Switchboard::Operator::Operator(SwitchboardOptions options, SwitchboardEvents events)
    : options_(std::move(options)),
      events_(std::move(events)),
      poller_(::epoll_create1(EPOLL_CLOEXEC)),
      bell_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  DASO_ASSERT(poller_.open() && bell_.open());
  watch(EPOLL_CTL_ADD, bell_.get(), EPOLLIN);
  if (options_.listening.open()) {
    const int flags = ::fcntl(options_.listening.get(), F_GETFL);
    DASO_ASSERT(::fcntl(options_.listening.get(), F_SETFL, flags | O_NONBLOCK) == 0);
    watch(EPOLL_CTL_ADD, options_.listening.get(), EPOLLIN);
    Address& own = options_.greeting.address;
    if (own.host.empty()) own = bound_address(options_.listening);
  }
  for (const auto& [node, address] : options_.nodes) {
    if (node != options_.self.node) nodes_[node].address = address;
  }
}

void Switchboard::Operator::watch(int how, int descriptor, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  DASO_ASSERT(::epoll_ctl(poller_.get(), how, descriptor, &event) == 0);
}

// --- for any thread ---

void Switchboard::Operator::ring() {
  const std::uint64_t one = 1;
  DASO_ASSERT(::write(bell_.get(), &one, sizeof one) == sizeof one);
}

void Switchboard::Operator::post(std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  if (stop_ != Stop::kNo) return;
  posted_.push_back(std::move(function));
  if (posted_.size() == 1) ring();
}

void Switchboard::Operator::stop(bool at_once) {
  const std::lock_guard lock(mutex_);
  stop_ = at_once ? Stop::kAtOnce : Stop::kInOrder;
  ring();
}

std::string Switchboard::Operator::trouble(NodeId node) const {
  const std::lock_guard lock(mutex_);
  const auto found = troubles_.find(node);
  return found == troubles_.end() ? "" : found->second;
}

// --- the loop ---

void Switchboard::Operator::work() {
  Clock::time_point next_tick = Clock::now();
  const auto period = std::chrono::duration_cast<Clock::duration>(options_.period);
  Stop stop = Stop::kNo;
  while (stop == Stop::kNo) {
    const Seconds left = std::max(Clock::duration(0), next_tick - Clock::now());
    std::array<epoll_event, 64> events{};
    const int ready = ::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(whole_milliseconds(left).count()));
    for (int i = 0; i < ready; ++i) handle(events[static_cast<std::size_t>(i)].data.fd);
    stop = run_posted();
    if (const auto now = Clock::now(); now >= next_tick) {
      next_tick = now + period;
      look_after();
      if (events_.on_tick) events_.on_tick();
    }
    flush();
    reap();
  }
  if (stop == Stop::kInOrder) leave();
}

void Switchboard::Operator::close() {
  callers_.clear();
  lines_.clear();
  options_.listening.close();
}

Switchboard::Operator::Stop Switchboard::Operator::run_posted() {
  std::vector<std::function<void()>> functions;
  {
    const std::lock_guard lock(mutex_);
    if (stop_ != Stop::kNo) return stop_;
    functions.swap(posted_);
  }
  for (const auto& function : functions) function();
  return Stop::kNo;
}

// A caller may end in the same round and its descriptor be given to the next one, who then gets an
// event that is not its own: it finds nothing to read, and that is all.
void Switchboard::Operator::handle(int descriptor) {
  if (descriptor == bell_.get()) {
    std::uint64_t rings = 0;
    static_cast<void>(::read(descriptor, &rings, sizeof rings));
  } else if (descriptor == options_.listening.get()) {
    admit_strangers();
  } else if (const auto one = std::ranges::find(
                 lines_, descriptor, [](const Connected& line) { return line.line.descriptor(); });
             one != lines_.end()) {
    read(*one);
  } else {
    advance(descriptor);
  }
}

// --- connections that are there ---

void Switchboard::Operator::read(Connected& one) {
  one.line.read();
  try {
    while (!one.line.leaving()) {
      const auto frame =
          one.line.next(one.member ? membership::kMostMessageBytes : kMostGreetingBytes);
      if (!frame) break;
      take(one, *frame);
    }
  } catch (const PeerError& problem) {
    part(one, problem.what());
  }
}

void Switchboard::Operator::take(Connected& one, const tcp::FrameReader::Frame& frame) {
  using Kind = tcp::Header::Kind;
  if (frame.header.kind == Kind::kGoodbye) one.goodbye = true;
  if (frame.header.kind != Kind::kLetter) return;
  if (!one.member) {
    if (frame.header.tag != kGreetingTag) return part(one, "it does not greet");
    return take_greeting(one, frame.letter);
  }
  if (frame.header.tag == kMessageTag && events_.on_message) {
    events_.on_message(*one.member, frame.letter);
  }
}

// Ends a connection whose other end may well be alive: a goodbye keeps it from hearing a reset.
void Switchboard::Operator::part(Connected& one, const std::string& reason) {
  one.line.say_goodbye(Deadline(options_.limits.leaving));
  if (!has_line(one.line.node())) tell_trouble(one.line.node(), reason);
}

void Switchboard::Operator::flush() {
  for (Connected& one : lines_) {
    const bool was_full = one.line.is_full();
    if (one.line.has_outgoing() && one.line.state() == Line::State::kOpen) {
      one.line.write();
    }
    if (one.line.state() != Line::State::kOpen) {
      read(one);  // its last words
    } else if (one.line.is_full() != was_full) {
      watch(EPOLL_CTL_MOD, one.line.descriptor(),
            one.line.is_full() ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
  }
}

void Switchboard::Operator::reap() {
  for (auto one = lines_.begin(); one != lines_.end();) {
    const Line& line = one->line;
    const bool late =
        line.leaving() ? line.leaving()->passed() : !one->member && one->greeting_due.passed();
    if (line.state() == Line::State::kOpen && !late) {
      ++one;
      continue;
    }
    const bool reset = line.state() == Line::State::kClosed && !one->goodbye && !line.leaving();
    const std::optional<membership::Member> member = one->member;
    const NodeId number = line.node();
    const bool was_leaving = line.leaving().has_value();
    const std::string problem = one->goodbye ? "it has left"
                                : late       ? "no greeting"
                                             : line.problem();
    // It may have stopped for a while, and shall not take us for dead when it goes on.
    if (late) one->line.say_goodbye(Deadline(Seconds(0)));
    one = lines_.erase(one);
    if (!has_line(number)) {
      if (!was_leaving) tell_trouble(number, problem);
      Node& node = nodes_[number];
      call_later(node);
      // One whose address nobody knows leaves no trace; there may be any number of them.
      if (!node.address) forget(number);
    }
    if (reset && member && events_.on_reset) events_.on_reset(*member);
  }
}

void Switchboard::Operator::send(NodeId to, std::span<const std::byte> message) {
  if (message.size() > membership::kMostMessageBytes) return;
  if (Connected* const one = line_to(to)) {
    one->line.push(tcp::framed_letter(kMessageTag, message), options_.limits.queued_bytes);
  }
}

Switchboard::Operator::Connected* Switchboard::Operator::line_to(NodeId node) {
  const auto found = std::find_if(lines_.rbegin(), lines_.rend(), [&](const Connected& one) {
    return one.line.node() == node && one.member && !one.line.leaving();
  });
  return found == lines_.rend() ? nullptr : &*found;
}

bool Switchboard::Operator::has_line(NodeId node) const {
  return std::ranges::any_of(
      lines_, [&](const Connected& one) { return one.line.node() == node && !one.line.leaving(); });
}

// --- time ---

void Switchboard::Operator::look_after() {
  if (std::exchange(deaf_, false)) {
    watch(EPOLL_CTL_MOD, options_.listening.get(), EPOLLIN);
  }
  std::vector<int> callers;
  for (const tcp::Caller& caller : callers_) callers.push_back(caller.descriptor());
  for (const int descriptor : callers) advance(descriptor);
  const Clock::time_point now = Clock::now();
  for (auto& [number, node] : nodes_) {
    if (now >= node.call_at) call(number, node);
  }
}

void Switchboard::Operator::tell_trouble(NodeId node, const std::string& problem) {
  const auto found = nodes_.find(node);
  const bool known = found != nodes_.end() && found->second.address;
  const std::lock_guard lock(mutex_);
  troubles_[node] = known ? found->second.address->text() + ": " + problem : problem;
}

// Messages that are queued still go out, then a goodbye on every line.
void Switchboard::Operator::leave() {
  handle(bell_.get());  // it has rung for the last time
  callers_.clear();
  options_.listening.close();
  const Deadline deadline(options_.limits.leaving);
  for (Connected& one : lines_) one.line.say_goodbye(deadline);
  while (!lines_.empty() && !deadline.passed()) {
    std::array<epoll_event, 64> events{};
    static_cast<void>(::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()),
                                   static_cast<int>(whole_milliseconds(deadline.left()).count())));
    for (Connected& one : lines_) one.line.read();
    flush();
    std::erase_if(lines_,
                  [](const Connected& one) { return one.line.state() != Line::State::kOpen; });
  }
}

}  // namespace daso
