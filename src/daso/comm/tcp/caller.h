// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/comm/network.h"
#include "daso/comm/tcp/handshake.h"

namespace daso::tcp {

// A socket whose ends have not proved themselves to each other yet.
class Caller {
 public:
  enum class State { kGoesOn, kProved, kFailed };

  // Somebody who has called us.
  Caller(FileDescriptor socket, Handshake handshake, Seconds limit);
  // Calls somebody: the socket is on its way to this address. Throws PeerError.
  static Caller dial(const Address& address, Handshake handshake, Seconds limit);

  int descriptor() const { return socket_.get(); }
  bool wants_to_write() const { return !outgoing_.empty(); }
  bool dialled() const { return dialled_; }
  const Deadline& deadline() const { return deadline_; }
  const Introduction& introduction() const { return handshake_.introduction(); }
  const std::string& problem() const { return problem_; }  // of one that failed

  // Goes on as far as the socket goes without blocking.
  State advance();
  FileDescriptor take_socket() { return std::move(socket_); }

 private:
  State fail(std::string problem);
  bool write();
  bool read();

  FileDescriptor socket_;
  Handshake handshake_;
  Deadline deadline_;
  bool dialled_ = false;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  std::string problem_;
};

}  // namespace daso::tcp
