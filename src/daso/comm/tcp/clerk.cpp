// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/clerk.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "daso/base/error.h"

namespace daso::tcp {
namespace {

constexpr Seconds kTick{0.05};
constexpr Seconds kAgain{0.1};  // between two tries to reach a peer

void call_all(std::vector<Done> all, const std::exception_ptr& error = nullptr) {
  for (Done& done : all) done(error);
}

void register_with(int poller, int how, int descriptor, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  DASO_ASSERT(::epoll_ctl(poller, how, descriptor, &event) == 0);
}

// The kernel knows of bytes that have come and wait for more before they wake us.
bool has_heard(int descriptor, Seconds within) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return false;
  return std::chrono::milliseconds(info.tcpi_last_data_recv) < within;
}

}  // namespace

Mailbox::Clerk::Clerk(MailboxOptions options, int bell, TakeRequests take_requests)
    : options_(std::move(options)),
      bell_(bell),
      take_requests_(std::move(take_requests)),
      poller_(::epoll_create1(EPOLL_CLOEXEC)) {
  DASO_ASSERT(poller_.open());
  register_with(poller_.get(), EPOLL_CTL_ADD, bell_, EPOLLIN);
  if (!options_.listening.open()) return;
  const int flags = ::fcntl(options_.listening.get(), F_GETFL);
  DASO_ASSERT(::fcntl(options_.listening.get(), F_SETFL, flags | O_NONBLOCK) == 0);
  register_with(poller_.get(), EPOLL_CTL_ADD, options_.listening.get(), EPOLLIN);
}

std::exception_ptr Mailbox::Clerk::error(const std::string& text) {
  return std::make_exception_ptr(PeerError(text));
}

std::string Mailbox::Clerk::name_of(int rank) const {
  return fmt::format("rank {} at {}", rank, peers_.at(rank).address.text());
}

std::string Mailbox::Clerk::problem_with(int rank, const std::exception& error) const {
  return fmt::format("{} to rank {}: {}", name_of(rank), options_.rank, error.what());
}

void Mailbox::Clerk::refuse(Request& request, const std::string& reason) {
  if (auto* post = std::get_if<Post>(&request)) post->letter.done(error(reason));
  if (auto* expect = std::get_if<Expect>(&request)) expect->done(error(reason));
  if (auto* connect = std::get_if<Connect>(&request)) connect->done(error(reason));
  if (auto* receive = std::get_if<Receive>(&request)) {
    receive->letter->set_exception(error(reason));
  }
}

void Mailbox::Clerk::work() {
  const auto tick_ms = static_cast<int>(whole_milliseconds(kTick).count());
  while (!aborted_ && !(leaving_ && (has_left() || leaving_->passed()))) {
    std::array<epoll_event, 64> events{};
    const int ready =
        ::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()), tick_ms);
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      const int descriptor = event.data.fd;
      if (descriptor == bell_) {
        answer_bell();
      } else if (descriptor == options_.listening.get()) {
        admit_strangers();
      } else if (const auto rank = ranks_.find(descriptor); rank != ranks_.end()) {
        serve(rank->second, event.events);
      } else if (callers_.contains(descriptor)) {
        advance(descriptor);
      }
    }
    tick();
  }
  for (auto& [rank, peer] : peers_) lose(peer, "this rank has left");
  serve_receivers();
  callers_.clear();
}

void Mailbox::Clerk::answer_bell() {
  std::uint64_t rings = 0;
  static_cast<void>(::read(bell_, &rings, sizeof rings));
  for (Request& request : take_requests_()) {
    std::visit([this](auto& one) { take(one); }, request);
  }
}

void Mailbox::Clerk::take(Post& request) {
  Peer& peer = peers_[request.peer];
  if (!peer.connection) {
    request.letter.done(error(peer.end.empty() ? "there is no connection yet" : peer.end));
    return;
  }
  peer.connection->push(std::move(request.letter));
  flush(request.peer, peer);
}

void Mailbox::Clerk::take(Expect& request) {
  Peer& peer = peers_[request.peer];
  bool there = false;
  try {
    there = peer.box.expect(request.tag, request.into, request.done);
  } catch (const PeerError& problem) {
    request.done(error(problem_with(request.peer, problem)));
    return;
  }
  if (there) {
    request.done(nullptr);
    if (peer.connection) watch(peer);  // it may be read again
  } else if (!peer.end.empty()) {
    call_all(peer.box.give_up(), error(peer.end));
  }
}

void Mailbox::Clerk::take(Connect& request) {
  Peer& peer = peers_[request.peer];
  peer.address = request.address;
  if (!peer.end.empty()) return request.done(error(peer.end));
  if (peer.connection) return request.done(nullptr);
  const bool first = peer.wanted.empty();
  const int rank = request.peer;
  peer.wanted.push_back(std::move(request));
  if (first && rank < options_.rank) dial(rank, peer);
}

void Mailbox::Clerk::take(Receive& request) {
  receivers_.push_back(std::move(request));
  serve_receivers();
}

// The senders behind the last one come first.
bool Mailbox::Clerk::hand_over(Receive& request) {
  auto sender = peers_.upper_bound(last_sender_);
  for (std::size_t tried = 0; tried < peers_.size(); ++tried, ++sender) {
    if (sender == peers_.end()) sender = peers_.begin();
    Peer& peer = sender->second;
    std::uint32_t& number = peer.next[request.group];
    auto bytes = peer.box.take({.group = request.group, .number = number});
    if (!bytes) continue;
    ++number;
    last_sender_ = sender->first;
    request.letter->set_value({.from = sender->first, .bytes = *std::move(bytes)});
    if (peer.connection) watch(peer);  // it may be read again
    return true;
  }
  return false;
}

// In the order in which they have asked.
void Mailbox::Clerk::serve_receivers() {
  const bool alone = std::ranges::none_of(
      peers_, [](const auto& one) { return one.second.connection || !one.second.wanted.empty(); });
  std::erase_if(receivers_, [&](Receive& one) {
    if (hand_over(one)) return true;
    if (!alone && !one.deadline.passed()) return false;
    one.letter->set_exception(error(alone ? "there is nobody left who could send a letter"
                                          : "no letter has come within the limit"));
    return true;
  });
}

void Mailbox::Clerk::take(Stop& request) {
  aborted_ = request.at_once;
  if (aborted_ || leaving_) return;
  leaving_.emplace(options_.limits.leaving);
  for (auto& [rank, peer] : peers_) {
    if (!peer.connection) continue;
    peer.connection->say_goodbye();
    flush(rank, peer);
  }
}

// --- connections that begin ---

void Mailbox::Clerk::admit_strangers() {
  while (true) {
    FileDescriptor socket(
        ::accept4(options_.listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.open()) {
      // Without descriptors nobody can be let in, and the poller would say so all the time.
      const bool full = errno == EMFILE || errno == ENFILE;
      if (full) register_with(poller_.get(), EPOLL_CTL_MOD, options_.listening.get(), 0);
      deaf_ = full;
      return;
    }
    make_room_for_stranger();
    const int descriptor = socket.get();
    register_with(poller_.get(), EPOLL_CTL_ADD, descriptor, EPOLLIN);
    callers_.emplace(
        descriptor,
        Caller(std::move(socket), Handshake::accept(options_.key, options_.rank, options_.view),
               options_.limits.handshake));
  }
}

// The one who has been silent for longest goes: members prove themselves at once, so strangers who
// keep all places taken would keep them out otherwise.
void Mailbox::Clerk::make_room_for_stranger() {
  const auto is_stranger = [](const auto& one) { return !one.second.dialled(); };
  if (std::ranges::count_if(callers_, is_stranger) < options_.limits.strangers) return;
  auto oldest = callers_.end();
  for (auto one = callers_.begin(); one != callers_.end(); ++one) {
    if (!is_stranger(*one)) continue;
    if (oldest == callers_.end() ||
        one->second.deadline().when() < oldest->second.deadline().when()) {
      oldest = one;
    }
  }
  if (oldest != callers_.end()) callers_.erase(oldest);  // which closes it
}

void Mailbox::Clerk::dial(int rank, Peer& peer) {
  peer.dial_at.reset();
  try {
    Caller caller = Caller::dial(
        peer.address,
        Handshake::dial(options_.key, {.from = options_.rank, .to = rank, .view = options_.view}),
        options_.limits.handshake);
    const int descriptor = caller.descriptor();
    register_with(poller_.get(), EPOLL_CTL_ADD, descriptor, EPOLLIN | EPOLLOUT);
    callers_.emplace(descriptor, std::move(caller));
  } catch (const std::exception& problem) {
    peer.last_problem = problem.what();
    peer.dial_at = Clock::now() + std::chrono::duration_cast<Clock::duration>(kAgain);
  }
}

void Mailbox::Clerk::advance(int descriptor) {
  Caller& caller = callers_.at(descriptor);
  switch (caller.advance()) {
    case Caller::State::kGoesOn:
      register_with(poller_.get(), EPOLL_CTL_MOD, descriptor,
                    caller.wants_to_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
      return;
    case Caller::State::kProved:
      welcome(caller);
      break;
    case Caller::State::kFailed:
      if (caller.dialled()) {
        Peer& peer = peers_[caller.introduction().to];
        peer.last_problem = caller.problem();
        peer.dial_at = Clock::now() + std::chrono::duration_cast<Clock::duration>(kAgain);
      }
      break;
  }
  callers_.erase(descriptor);
}

void Mailbox::Clerk::welcome(Caller& caller) {
  const Introduction& who = caller.introduction();
  const int rank = caller.dialled() ? who.to : who.from;
  Peer& peer = peers_[rank];
  // One of a pair dials, and one connection is enough.
  if (peer.connection || !peer.end.empty()) return;
  const int descriptor = caller.descriptor();
  peer.connection = std::make_unique<Connection>(caller.take_socket());
  peer.dial_at.reset();
  ranks_[descriptor] = rank;
  register_with(poller_.get(), EPOLL_CTL_MOD, descriptor, EPOLLIN);
  for (const Connect& one : std::exchange(peer.wanted, {})) one.done(nullptr);
}

// --- connections that are there ---

void Mailbox::Clerk::serve(int rank, std::uint32_t events) {
  Peer& peer = peers_.at(rank);
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !read(rank, peer)) return;
  flush(rank, peer);
}

// False: there is no connection any more.
bool Mailbox::Clerk::read(int rank, Peer& peer) {
  Incoming::Arrived arrived;
  std::string problem;
  try {
    peer.connection->read(peer.box, arrived);
  } catch (const std::exception& error) {
    problem = problem_with(rank, error);
  }
  peer.goodbye = peer.goodbye || arrived.goodbye;
  call_all(std::move(arrived.done));
  if (problem.empty() && arrived.closed) {
    problem = name_of(rank) + (peer.goodbye ? " has left" : " closed the connection");
  }
  if (!problem.empty()) lose(peer, problem);
  if (!receivers_.empty()) serve_receivers();
  return problem.empty();
}

void Mailbox::Clerk::flush(int rank, Peer& peer) {
  std::vector<Done> done;
  std::string problem;
  try {
    if (peer.connection->has_outgoing()) {
      peer.last_sent = Clock::now();
      peer.connection->write(done);
    }
  } catch (const std::exception& error) {
    problem = problem_with(rank, error);
  }
  call_all(std::move(done));
  if (!problem.empty()) return lose(peer, problem);
  // Until then the other end may want something again.
  if (leaving_ && peer.connection->is_through()) peer.connection->half_close();
  watch(peer);
}

// What the poller is to tell of it.
void Mailbox::Clerk::watch(Peer& peer) {
  std::uint32_t events = 0;
  if (peer.box.bytes_waiting() < options_.limits.waiting) events |= EPOLLIN;
  if (peer.connection->has_outgoing()) events |= EPOLLOUT;
  register_with(poller_.get(), EPOLL_CTL_MOD, peer.connection->descriptor(), events);
}

void Mailbox::Clerk::lose(Peer& peer, const std::string& reason) {
  if (peer.end.empty()) peer.end = reason;
  std::vector<Done> all;
  if (peer.connection) {
    all = peer.connection->give_up();
    ranks_.erase(peer.connection->descriptor());
    peer.connection.reset();
  }
  for (Done& done : peer.box.give_up()) all.push_back(std::move(done));
  for (const Connect& one : std::exchange(peer.wanted, {})) all.push_back(one.done);
  call_all(std::move(all), error(peer.end));
}

// --- time ---

void Mailbox::Clerk::tick() {
  const Clock::time_point now = Clock::now();
  if (now - last_tick_ < kTick) return;
  // Who has been stopped himself accuses nobody.
  const bool slept = now - last_tick_ > 4 * options_.limits.beat;
  last_tick_ = now;
  if (std::exchange(deaf_, false)) {
    register_with(poller_.get(), EPOLL_CTL_MOD, options_.listening.get(), EPOLLIN);
  }
  std::vector<int> waiting;
  for (const auto& [descriptor, caller] : callers_) waiting.push_back(descriptor);
  for (const int descriptor : waiting) advance(descriptor);
  for (auto& [rank, peer] : peers_) look_after(rank, peer, now, slept);
  if (!receivers_.empty()) serve_receivers();
}

void Mailbox::Clerk::look_after(int rank, Peer& peer, Clock::time_point now, bool slept) {
  if (!peer.connection) {
    if (peer.dial_at && now >= *peer.dial_at && !peer.wanted.empty()) dial(rank, peer);
    std::erase_if(peer.wanted, [&](const Connect& one) {
      if (!one.deadline.passed()) return false;
      const std::string problem =
          peer.last_problem.empty()
              ? (rank < options_.rank ? "nothing answers" : "it has not called")
              : peer.last_problem;
      one.done(error(fmt::format("rank {} has no connection to {}: {}", options_.rank,
                                 name_of(rank), problem)));
      return true;
    });
    return;
  }
  if (slept) peer.connection->forgive();
  const Seconds silent = now - peer.connection->last_read();
  if (silent > options_.limits.silence && peer.box.bytes_waiting() < options_.limits.waiting &&
      !has_heard(peer.connection->descriptor(), options_.limits.silence)) {
    return lose(peer,
                fmt::format("{} has been silent for {:.1f} s", name_of(rank), silent.count()));
  }
  if (now - peer.last_sent > options_.limits.beat && !leaving_ &&
      !peer.connection->has_outgoing()) {
    peer.connection->beat();
    flush(rank, peer);
  }
}

bool Mailbox::Clerk::has_left() const {
  return std::none_of(peers_.begin(), peers_.end(),
                      [](const auto& one) { return one.second.connection != nullptr; });
}

}  // namespace daso::tcp
