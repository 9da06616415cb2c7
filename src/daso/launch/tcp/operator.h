// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>

#include "daso/comm/tcp/caller.h"
#include "daso/launch/switchboard.h"
#include "daso/launch/tcp/line.h"

namespace daso {

// The thread of a switchboard. It alone touches sockets, so what it has is not locked but for what
// others leave for it: functions to run, the wish to end; and what it leaves for them: troubles.
class Switchboard::Operator {
 public:
  Operator(SwitchboardOptions options, SwitchboardEvents events);

  // For any thread.
  void post(std::function<void()> function);
  void stop(bool at_once);
  std::string trouble(membership::NodeId node) const;

  void work();   // until it is told to stop
  void close();  // after that: all that is open

  // For its own thread.
  void send(membership::NodeId to, std::span<const std::byte> message);
  void know(membership::NodeId node, const Address& address);
  void forget(membership::NodeId node);

 private:
  struct Node {
    std::optional<Address> address;            // to call it at; none: it is not called
    std::optional<std::uint64_t> incarnation;  // the highest that has greeted
    Seconds pause{0};                          // before the next call
    Clock::time_point call_at = Clock::now();
    bool calling = false;
  };
  struct Connected {
    Line line;
    Deadline greeting_due;
    std::optional<membership::Member> member;  // none: it has not greeted
    bool goodbye = false;                      // it has said so
  };
  enum class Stop { kNo, kInOrder, kAtOnce };

  // operator.cpp: the loop, time, and connections that are there
  Stop run_posted();
  void handle(int descriptor);
  void read(Connected& one);
  void take(Connected& one, const tcp::FrameReader::Frame& frame);
  void flush();
  void reap();
  void leave();
  void look_after();
  void tell_trouble(membership::NodeId node, const std::string& problem);
  void ring();
  void watch(int how, int descriptor, std::uint32_t events);  // by epoll

  // calls.cpp: connections that begin
  void admit_strangers();
  void make_room_for_stranger();
  void call(membership::NodeId number, Node& node);
  void call_later(Node& node);
  void advance(int descriptor);
  void welcome(tcp::Caller& caller);
  void take_greeting(Connected& one, std::span<const std::byte> bytes);
  void replace_older(const membership::Member& member);

  Connected* line_to(membership::NodeId node);  // the newest that has greeted; null: none
  bool has_line(membership::NodeId node) const;
  void part(Connected& one, const std::string& reason);

  SwitchboardOptions options_;
  const SwitchboardEvents events_;
  FileDescriptor poller_;
  FileDescriptor bell_;
  std::map<membership::NodeId, Node> nodes_;
  std::list<tcp::Caller> callers_;  // the oldest first
  std::list<Connected> lines_;      // likewise
  bool deaf_ = false;               // to strangers, until the next tick

  mutable std::mutex mutex_;  // guards the rest
  std::vector<std::function<void()>> posted_;
  Stop stop_ = Stop::kNo;
  std::map<membership::NodeId, std::string> troubles_;
};

}  // namespace daso
