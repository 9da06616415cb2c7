// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/comm/network.h"
#include "daso/membership/view.h"

// Launchers that write to each other over TCP: switchboard (the connections of one of them), and in
// tcp the one thread that works on all (operator), a connection (line), and what each end says
// about itself first (greeting). Who calls proves that it knows the job's key before anything else
// is read, as ranks do (comm/tcp/handshake.h). What travels has a length and a checksum
// (comm/tcp/frame.h).
namespace daso {

// What a launcher says about itself at the beginning of each connection.
struct Greeting {
  Address address;   // numeric, where it can be called; port 0: nowhere
  std::string text;  // its owner's, kMostGreetingText bytes at most
};
inline constexpr std::size_t kMostGreetingText = 1024;

struct SwitchboardLimits {
  Seconds handshake{2};  // for one who calls, to prove itself and to greet
  Seconds leaving{1};    // for the others to take note, in good order
  // After which a connection is given up that nothing gets through: longer than a member may be
  // silent, since the other end may hear a reset when the network is back.
  Seconds stalled{10};
  int strangers = 64;  // who have called and not proved themselves, at a time
  std::size_t queued_bytes = std::size_t{256} << 10;  // for one node; beyond it the oldest go
};

struct SwitchboardOptions {
  membership::Member self;
  std::string key;           // of the job; not empty
  FileDescriptor listening;  // none: calls others, and nobody can call it
  Greeting greeting;         // without a host: the address that `listening` is bound to
  std::map<membership::NodeId, Address> nodes;  // numeric addresses of others; see know()
  Seconds period{0.05};                         // from on_tick to on_tick
  SwitchboardLimits limits;
};

// What the owner hears, on the switchboard's thread, which may begin before the constructor has
// returned. None of them may throw; any may be empty. They may call all but abort().
struct SwitchboardEvents {
  // Bytes come as they were sent, or not at all.
  std::function<void(const membership::Member& from, std::span<const std::byte> message)>
      on_message;
  // A connection to this life of a launcher has ended without a goodbye: it died, or the connection
  // was cut. Also where its successor has called. Once for each connection, of which a pair may
  // have two, as both may call.
  std::function<void(const membership::Member& member)> on_reset;
  // A connection to this life of a launcher is there: before anything else that is heard from it.
  std::function<void(const membership::Member& member, const Greeting& greeting)> on_greeting;
  std::function<void()> on_tick;
};

// Messages between this launcher and others, best effort: what cannot be sent now is dropped, and
// nothing is sent twice. A connection that is not there, or not any more, is no error: the nodes
// that are known are called again and again.
//
// An owner that touches its own state in the events and by post() alone needs no locks.
class Switchboard {
 public:
  Switchboard(SwitchboardOptions options, SwitchboardEvents events);
  // Says goodbye to all, within a limit. Events end; what was posted and has not run is dropped.
  ~Switchboard();

  // All of these are for any thread, and never wait.

  // At most membership::kMostMessageBytes.
  void send(membership::NodeId to, std::vector<std::byte> message);
  // Calls this node until it is there, and whenever it is gone, at this numeric address. A node
  // that calls us says itself where it is; a successor is called there.
  void know(membership::NodeId node, Address address);
  // Calls it no more.
  void forget(membership::NodeId node);
  // Runs a function on the switchboard's thread, in the order of calls. It may not throw.
  void post(std::function<void()> function);
  // Why there is no connection to a node, for people: "10.0.0.3:4000: Connection refused". Empty
  // where there is one, or nothing has been tried.
  std::string trouble(membership::NodeId node) const;

  // Ends at once, without a goodbye: the others hear a reset. Waits for the thread.
  void abort();

 private:
  class Operator;  // the thread's own: all sockets

  void end(bool at_once);

  std::unique_ptr<Operator> operator_;
  std::jthread thread_;
};

}  // namespace daso
