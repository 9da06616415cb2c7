// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/caller.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "daso/base/error.h"
#include "daso/comm/socket_address.h"

namespace daso::tcp {

Caller::Caller(FileDescriptor socket, Handshake handshake, Seconds limit)
    : socket_(std::move(socket)),
      handshake_(std::move(handshake)),
      deadline_(limit),
      outgoing_(handshake_.take_outgoing()) {}

Caller Caller::dial(const Address& address, Handshake handshake, Seconds limit) {
  const SocketAddress where(address);
  FileDescriptor socket(::socket(where.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) throw PeerError(fmt::format("no socket: {}", std::strerror(errno)));
  Caller caller(std::move(socket), std::move(handshake), limit);
  caller.dialled_ = true;
  if (::connect(caller.descriptor(), where.get(), where.bytes()) < 0 && errno != EINPROGRESS) {
    caller.problem_ = std::strerror(errno);
  }
  return caller;
}

Caller::State Caller::fail(std::string problem) {
  problem_ = std::move(problem);
  return State::kFailed;
}

// False: the socket has failed, as errno says.
bool Caller::write() {
  while (!outgoing_.empty()) {
    const std::ptrdiff_t sent =
        ::send(socket_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
    outgoing_.erase(outgoing_.begin(), outgoing_.begin() + sent);
  }
  return true;
}

// Not a byte more than is awaited: what follows is for others to read.
bool Caller::read() {
  while (incoming_.size() < handshake_.awaited()) {
    std::array<std::byte, 64> bytes{};
    const std::size_t room = std::min(bytes.size(), handshake_.awaited() - incoming_.size());
    const std::ptrdiff_t got = ::recv(socket_.get(), bytes.data(), room, 0);
    if (got == 0) errno = ECONNRESET;
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN);
    incoming_.insert(incoming_.end(), bytes.begin(), bytes.begin() + got);
  }
  return true;
}

Caller::State Caller::advance() {
  if (!problem_.empty()) return State::kFailed;
  int error = 0;
  socklen_t bytes = sizeof error;
  ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error != 0) return fail(std::strerror(error));
  while (true) {
    if (!write() || !read()) return fail(std::strerror(errno));
    if (handshake_.awaited() == 0 && outgoing_.empty()) return State::kProved;
    if (handshake_.awaited() == 0 || incoming_.size() < handshake_.awaited()) break;
    if (!handshake_.take(incoming_)) return fail("it does not belong to this job");
    incoming_.clear();
    const std::vector<std::byte> more = handshake_.take_outgoing();
    outgoing_.insert(outgoing_.end(), more.begin(), more.end());
  }
  return deadline_.passed() ? fail("no answer") : State::kGoesOn;
}

}  // namespace daso::tcp
