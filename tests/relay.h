// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>

#include "daso/comm/network.h"
#include "daso/comm/socket_address.h"

namespace daso::test {

// Somebody on the way: carries the bytes of connections to another address, and turns bits of what
// is said when it is told to.
class Relay {
 public:
  enum class Way { kFromCaller, kToCaller };

  explicit Relay(Address to)
      : to_(std::move(to)),
        listening_(listen_on({"127.0.0.1", 0})),
        thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) carry();
        }) {}

  Address address() const { return bound_address(listening_); }
  // A bit of the last byte that a caller says next.
  void damage_next() {
    const std::lock_guard lock(mutex_);
    damage_next_ = true;
  }
  // Carries nothing more, and leaves all connections as they are.
  void hold() { holding_ = true; }
  // Somebody has said something since that was not carried.
  bool has_held() const { return has_held_; }
  // A bit of this byte, as counted on each connection.
  void damage(Way way, std::uint64_t byte) {
    const std::lock_guard lock(mutex_);
    places_.insert({way, byte});
  }

 private:
  struct Pair {
    FileDescriptor caller;
    FileDescriptor called;
    bool over = false;
    std::array<std::uint64_t, 2> carried{};  // bytes, by way
  };

  void carry() {
    std::vector<pollfd> watched = {{listening_.get(), POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      watched.push_back({pair.caller.get(), POLLIN, 0});
      watched.push_back({pair.called.get(), POLLIN, 0});
    }
    if (::poll(watched.data(), watched.size(), /*timeout=*/20) <= 0) return;
    if (holding_) {
      has_held_ = true;
      std::this_thread::yield();
      return;
    }
    std::size_t next = 1;
    for (Pair& pair : pairs_) {
      if (watched[next++].revents != 0) pass(pair, Way::kFromCaller);
      if (watched[next++].revents != 0) pass(pair, Way::kToCaller);
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

  void pass(Pair& pair, Way way) {
    const bool from_caller = way == Way::kFromCaller;
    const FileDescriptor& from = from_caller ? pair.caller : pair.called;
    const FileDescriptor& to = from_caller ? pair.called : pair.caller;
    std::array<char, 4096> bytes{};
    const std::ptrdiff_t got = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) {
      pair.over = true;
      return;
    }
    const auto length = static_cast<std::size_t>(got);
    std::uint64_t& carried = pair.carried[static_cast<std::size_t>(way)];
    {
      const std::lock_guard lock(mutex_);
      if (from_caller && std::exchange(damage_next_, false)) bytes[length - 1] ^= 1;
      for (const auto& [where, byte] : places_) {
        if (where == way && byte >= carried && byte < carried + length) bytes[byte - carried] ^= 1;
      }
    }
    carried += length;
    ::send(to.get(), bytes.data(), length, MSG_NOSIGNAL);
  }

  const Address to_;
  const FileDescriptor listening_;
  std::mutex mutex_;  // guards the next two
  bool damage_next_ = false;
  std::set<std::pair<Way, std::uint64_t>> places_;
  std::atomic<bool> holding_ = false;
  std::atomic<bool> has_held_ = false;
  std::list<Pair> pairs_;
  std::jthread thread_;
};

}  // namespace daso::test
