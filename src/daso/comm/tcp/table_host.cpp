// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/table_host.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/thread_name.h"
#include "daso/comm/tcp/connection.h"

namespace daso::tcp {
namespace {

constexpr std::size_t kStrangers = 64;  // who have called and not proved themselves, at a time
constexpr Seconds kBetweenLooks{0.25};
// After which a member that is not heard of is let go; if it was only cut off it calls again.
constexpr Seconds kUnheard{10};
constexpr std::uint64_t kHost = 0;  // as a client; nobody draws it

}  // namespace

TableHost::TableHost(FileDescriptor listening, std::string key)
    : listening_(std::move(listening)),
      address_(bound_address(listening_)),
      key_(std::move(key)),
      poller_(::epoll_create1(EPOLL_CLOEXEC)),
      bell_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  DASO_ASSERT(poller_.open() && bell_.open());
  const int flags = ::fcntl(listening_.get(), F_GETFL);
  DASO_ASSERT(::fcntl(listening_.get(), F_SETFL, flags | O_NONBLOCK) == 0);
  watch(EPOLL_CTL_ADD, listening_.get(), EPOLLIN);
  watch(EPOLL_CTL_ADD, bell_.get(), EPOLLIN);
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  name_thread(thread_.native_handle(), "daso table");
}

TableHost::~TableHost() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  static_cast<void>(!::write(bell_.get(), &one, sizeof one));
}

TableAnswer TableHost::ask(TableQuestion question) {
  question.client = kHost;
  question.number = ++asked_;
  return table_.answer(question);
}

// --- the thread ---

void TableHost::watch(int how, int descriptor, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.fd = descriptor;
  DASO_ASSERT(::epoll_ctl(poller_.get(), how, descriptor, &event) == 0);
}

void TableHost::work(const std::stop_token& stop) {
  const auto look = static_cast<int>(whole_milliseconds(kBetweenLooks).count());
  while (!stop.stop_requested()) {
    std::array<epoll_event, 64> events{};
    const int ready =
        ::epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()), look);
    for (int i = 0; i < ready; ++i) {
      const int descriptor = events[static_cast<std::size_t>(i)].data.fd;
      if (descriptor == listening_.get()) {
        admit();
      } else if (const auto client = std::ranges::find(
                     clients_, descriptor, [](const Client& one) { return one.socket.get(); });
                 client != clients_.end()) {
        read(*client);
        write(*client);
        if (client->over) clients_.erase(client);
      } else if (const auto caller =
                     std::ranges::find(callers_, descriptor, &Caller::descriptor);
                 caller != callers_.end()) {
        advance(*caller);
      }
    }
    drop_late_callers();
  }
}

void TableHost::admit() {
  FileDescriptor socket(
      ::accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.open()) {
    // Without descriptors nobody can be let in, and the poller would say so all the time.
    deaf_ = errno == EMFILE || errno == ENFILE;
    if (deaf_) watch(EPOLL_CTL_MOD, listening_.get(), 0);
    return;
  }
  // A member needs a round trip to prove itself: who has had the longest time for that goes.
  if (callers_.size() == kStrangers) callers_.pop_front();
  watch(EPOLL_CTL_ADD, socket.get(), EPOLLIN);
  callers_.emplace_back(std::move(socket), Handshake::accept(key_, 0, 0, Service::kTable),
                        kForTableProof);
}

void TableHost::advance(Caller& caller) {
  const int descriptor = caller.descriptor();
  const Caller::State state = caller.advance();
  if (state == Caller::State::kGoesOn) {
    return watch(EPOLL_CTL_MOD, descriptor, caller.wants_to_write() ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }
  if (state == Caller::State::kProved) {
    watch(EPOLL_CTL_MOD, descriptor, EPOLLIN);
    const int yes = 1;
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    send_again_soon(descriptor);
    end_when_unheard(descriptor, kUnheard);
    clients_.push_back({.socket = caller.take_socket(), .reader = {}, .outgoing = {}});
  }
  callers_.erase(std::ranges::find(callers_, &caller, [](const Caller& one) { return &one; }));
}

void TableHost::drop_late_callers() {
  std::erase_if(callers_, [](const Caller& one) { return one.deadline().passed(); });
  if (std::exchange(deaf_, false)) watch(EPOLL_CTL_MOD, listening_.get(), EPOLLIN);
}

void TableHost::read(Client& client) {
  std::array<std::byte, 16 << 10> bytes;  // NOLINT(*-member-init): filled by what comes
  while (!client.over) {
    const std::ptrdiff_t got = ::recv(client.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    client.over = got <= 0;
    if (!client.over) {
      client.reader.add(std::span(bytes).first(static_cast<std::size_t>(got)));
    }
  }
  try {
    while (const auto frame = client.reader.next(kMostTableBytes)) {
      const std::optional<TableQuestion> question = decode_question(frame->letter);
      if (!question) throw PeerError("it asks what nobody of ours does");
      const std::vector<std::byte> answer =
          framed_letter(frame->header.tag, encode(table_.answer(*question)));
      client.outgoing.insert(client.outgoing.end(), answer.begin(), answer.end());
    }
  } catch (const PeerError&) {
    client.over = true;  // it calls again, and asks what was damaged
  }
}

void TableHost::write(Client& client) {
  while (!client.over && !client.outgoing.empty()) {
    const std::ptrdiff_t sent = ::send(client.socket.get(), client.outgoing.data(),
                                       client.outgoing.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    client.over = sent < 0;
    if (!client.over) {
      client.outgoing.erase(client.outgoing.begin(), client.outgoing.begin() + sent);
    }
  }
  const bool full = !client.outgoing.empty();
  if (client.over || full == std::exchange(client.full, full)) return;
  watch(EPOLL_CTL_MOD, client.socket.get(), full ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

}  // namespace daso::tcp

namespace daso {

Store Store::host_for_members(FileDescriptor listening, const std::string& key) {
  return Store(std::make_shared<tcp::TableHost>(std::move(listening), key));
}

}  // namespace daso
