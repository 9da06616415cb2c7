// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <list>
#include <stop_token>
#include <thread>

#include "daso/comm/network.h"
#include "daso/comm/socket_address.h"

namespace daso::test {

// Somebody on the way: carries the bytes of connections to another address, and turns a bit of what
// callers say when it is told to.
class Relay {
 public:
  explicit Relay(Address to)
      : to_(std::move(to)),
        listening_(listen_on({"127.0.0.1", 0})),
        thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) carry();
        }) {}

  Address address() const { return bound_address(listening_); }
  void damage_next() { damage_ = true; }

 private:
  struct Pair {
    FileDescriptor caller;
    FileDescriptor called;
    bool over = false;
  };

  void carry() {
    std::vector<pollfd> watched = {{listening_.get(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      watched.push_back({pair.caller.get(), POLLIN, 0});
      watched.push_back({pair.called.get(), POLLIN, 0});
    }
    if (::poll(watched.data(), watched.size(), /*timeout=*/20) <= 0) return;
    std::size_t next = 1;
    for (Pair& pair : pairs_) {
      if (watched[next++].revents != 0) pass(pair, pair.caller, pair.called, /*may_damage=*/true);
      if (watched[next++].revents != 0) pass(pair, pair.called, pair.caller, /*may_damage=*/false);
    }
    pairs_.remove_if([](const Pair& pair) { return pair.over; });
    if (watched[0].revents != 0) admit();
  }

  void admit() {
    FileDescriptor caller(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const SocketAddress where(to_);
    FileDescriptor called(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(called.get(), where.get(), where.bytes()) != 0) return;
    pairs_.push_back({std::move(caller), std::move(called)});
  }

  void pass(Pair& pair, FileDescriptor& from, FileDescriptor& to, bool may_damage) {
    std::array<char, 4096> bytes{};
    const std::ptrdiff_t got = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) {
      pair.over = true;
      return;
    }
    if (may_damage && damage_.exchange(false)) bytes[static_cast<std::size_t>(got) / 2] ^= 1;
    ::send(to.get(), bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
  }

  const Address to_;
  const FileDescriptor listening_;
  std::atomic<bool> damage_ = false;
  std::list<Pair> pairs_;
  std::jthread thread_;
};

}  // namespace daso::test
