// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "daso/comm/tcp/caller.h"
#include "daso/comm/tcp/connection.h"
#include "daso/comm/tcp/mailbox.h"

namespace daso::tcp {

// The thread of a mailbox. It alone touches sockets and letters, so nothing here is locked; others
// leave requests and ring the bell.
class Mailbox::Clerk {
 public:
  using TakeRequests = std::function<std::vector<Request>()>;

  Clerk(MailboxOptions options, int bell, TakeRequests take_requests);

  void work();  // until a request to stop has been done

  // Ends whatever it asks for with a PeerError.
  static void refuse(Request& request, const std::string& reason);

 private:
  struct Peer {
    Address address;
    std::unique_ptr<Connection> connection;  // null: none yet, or no more
    Letterbox box;
    std::vector<Connect> wanted;               // those who wait for the connection
    std::optional<Clock::time_point> dial_at;  // when to try again
    std::string last_problem;                  // of the tries before
    std::string end;                           // why there is none any more; empty: there may be
    bool goodbye = false;
    std::map<std::uint32_t, std::uint32_t> next;  // number of the next letter for anybody, by group
    Clock::time_point last_sent = Clock::now();
  };

  void answer_bell();
  void take(Post& request);
  void take(Expect& request);
  void take(Connect& request);
  void take(Receive& request);
  void take(Stop& request);

  bool hand_over(Receive& request);
  void serve_receivers();

  void admit_strangers();
  void make_room_for_stranger();
  void dial(int rank, Peer& peer);
  void advance(int descriptor);
  void welcome(Caller& caller);

  void serve(int rank, std::uint32_t events);
  bool read(int rank, Peer& peer);
  void flush(int rank, Peer& peer);
  void watch(Peer& peer);
  void lose(Peer& peer, const std::string& reason);

  void tick();
  void look_after(int rank, Peer& peer, Clock::time_point now, bool slept);
  bool has_left() const;  // nothing is left to do before the end
  std::string name_of(int rank) const;
  std::string problem_with(int rank, const std::exception& error) const;
  static std::exception_ptr error(const std::string& text);

  const MailboxOptions options_;
  const int bell_;
  const TakeRequests take_requests_;
  FileDescriptor poller_;
  std::map<int, Peer> peers_;       // by rank
  std::map<int, Caller> callers_;   // by descriptor
  std::map<int, int> ranks_;        // of connections, by descriptor
  std::vector<Receive> receivers_;  // who wait for a letter from anybody
  int last_sender_ = -1;            // of such a one
  std::optional<Deadline> leaving_;
  bool aborted_ = false;
  bool deaf_ = false;  // to new callers, until the next tick
  Clock::time_point last_tick_ = Clock::now();
};

}  // namespace daso::tcp
