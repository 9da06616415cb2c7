// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace daso::tcp {
namespace {

// TCP_RTO_MAX_MS, of Linux 6.15: older headers lack it, and older kernels refuse it. There the
// other option helps for as long as little is on its way.
constexpr int kLongestRetransmission = 44;
constexpr int kMilliseconds = 1000;  // no kernel takes less

}  // namespace

void send_again_soon(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &yes, sizeof yes);
  ::setsockopt(socket, IPPROTO_TCP, kLongestRetransmission, &kMilliseconds, sizeof kMilliseconds);
}

void end_when_unheard(int socket, Seconds limit) {
  const auto milliseconds = static_cast<int>(whole_milliseconds(limit).count());
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  const int second = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second);
}

Connection::Connection(FileDescriptor socket) : socket_(std::move(socket)) {
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  send_again_soon(socket_.get());
}

void Connection::half_close() { ::shutdown(socket_.get(), SHUT_WR); }

void Connection::write(std::vector<Done>& done) {
  outgoing_.write(socket_.get(), incoming_.received(), done);
}

void Connection::read(Letterbox& box, Incoming::Arrived& arrived) {
  incoming_.read(socket_.get(), box, arrived);
  outgoing_.take_receipt(arrived.received, arrived.done);
  for (const Tag& tag : arrived.damaged) outgoing_.ask_again(tag);
  for (const Tag& tag : arrived.wanted) outgoing_.send_again(tag);
  if (arrived.receipt_due) outgoing_.owe_receipt();
}

}  // namespace daso::tcp
