// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/comm/tcp/incoming.h"
#include "daso/comm/tcp/outgoing.h"

namespace daso::tcp {

// For a socket by which nodes hear of each other: what was lost is sent again within a second. By
// default the system waits about as long as the link has been cut, so that a node that has been
// away for a moment would be silent for two.
void send_again_soon(int socket);

// What the other end has not taken note of for so long ends the connection, also where there is
// nothing to send: the system asks it every second. Without that an end that has lost its power is
// never missed, and one that is sent something only after minutes.
void end_when_unheard(int socket, Seconds limit);

// One socket between two ranks that have proved themselves: writes letters as frames and reads
// frames as letters, as far as the socket goes without blocking. A letter that was damaged on the
// way is sent again, once. Knows nothing of other threads.
class Connection {
 public:
  explicit Connection(FileDescriptor socket);

  int descriptor() const { return socket_.get(); }

  void push(Letter letter) { outgoing_.push(std::move(letter)); }
  void beat() { outgoing_.push(Header::Kind::kBeat); }
  void say_goodbye() { outgoing_.push(Header::Kind::kGoodbye); }
  bool has_outgoing() const { return !outgoing_.empty(); }
  // All is sent, and the other end has it.
  bool is_through() const { return outgoing_.empty() && outgoing_.all_received(); }

  // Sends what the socket takes, up to a share, and adds what need not wait any longer. Throws
  // PeerError.
  void write(std::vector<Done>& done);
  // Those that will not be sent any more, or may not have arrived.
  std::vector<Done> give_up() { return outgoing_.give_up(); }

  // Reads what is there, up to a share, and adds what came of it; there may be something to write
  // then. Throws PeerError for what is damaged for good or was not awaited in this length.
  void read(Letterbox& box, Incoming::Arrived& arrived);

  Clock::time_point last_read() const { return incoming_.last_read(); }
  void forgive() { incoming_.forgive(); }  // its silence until now
  void half_close();                       // nothing is sent any more

 private:
  FileDescriptor socket_;
  Outgoing outgoing_;
  Incoming incoming_;
};

}  // namespace daso::tcp
