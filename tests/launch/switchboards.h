// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daso/launch/switchboard.h"

namespace daso::test {

using membership::Member;
using membership::NodeId;

inline constexpr Seconds kLimit{10};

inline std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline std::size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

// One launcher's switchboard on loopback, and what it hears.
class Board {
 public:
  struct Setup {
    std::string key = "key";
    std::string host = "127.0.0.1";
    std::map<NodeId, Address> nodes;
    SwitchboardLimits limits;
  };

  explicit Board(Member self) : Board(self, Setup{}) {}
  Board(Member self, Setup setup) : self_(self) {
    FileDescriptor listening = listen_on({setup.host, 0});
    address = bound_address(listening);
    switchboard = std::make_unique<Switchboard>(
        SwitchboardOptions{.self = self,
                           .key = setup.key,
                           .listening = std::move(listening),
                           .greeting = {.text = "store of " + text(self)},
                           .nodes = setup.nodes,
                           .limits = setup.limits},
        SwitchboardEvents{
            .on_message =
                [this](const Member& from, std::span<const std::byte> message) {
                  const auto* const text = reinterpret_cast<const char*>(message.data());
                  note(membership::text(from) + " says " + std::string(text, message.size()));
                },
            .on_reset = [this](const Member& member) { note(text(member) + " reset"); },
            .on_greeting =
                [this](const Member& member, const Greeting& greeting) {
                  note(text(member) + " greets from " + greeting.address.text() + " with " +
                       greeting.text);
                },
            .on_tick = [this] { note("tick"); }});
  }
  ~Board() { switchboard.reset(); }

  // What it has heard so often by now.
  int times(const std::string& event) {
    const std::lock_guard lock(mutex_);
    return heard_.contains(event) ? heard_.at(event) : 0;
  }
  bool hears(const std::string& event, int times = 1, Seconds limit = kLimit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return heard_[event] >= times; });
  }
  bool hears_greeting_of(const Board& other, int times = 1) {
    return hears(other.greeting(), times);
  }
  std::string greeting() const {
    return text(self_) + " greets from " + address.text() + " with store of " + text(self_);
  }
  // Until a message that was sent by now, or later, has come: some may be dropped before there is a
  // connection.
  bool reaches(Board& other) {
    const std::string word = "hello " + std::to_string(++words_);
    const Deadline deadline(kLimit);
    while (!deadline.passed()) {
      switchboard->send(other.self_.node, bytes_of(word));
      if (other.hears(text(self_) + " says " + word, 1, Seconds(0.05))) return true;
    }
    return false;
  }

  Address address;
  std::unique_ptr<Switchboard> switchboard;

 private:
  void note(const std::string& event) {
    const std::lock_guard lock(mutex_);
    ++heard_[event];
    changed_.notify_all();
  }

  Member self_;
  int words_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> heard_;
};

}  // namespace daso::test
