// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/tcp/line.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "daso/comm/tcp/connection.h"

namespace daso {
namespace {

constexpr std::size_t kShare = 256 << 10;  // bytes, before others have their turn

}  // namespace

Line::Line(FileDescriptor socket, membership::NodeId node, Seconds stalled)
    : socket_(std::move(socket)), node_(node) {
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  tcp::send_again_soon(socket_.get());
  tcp::end_when_unheard(socket_.get(), stalled);
}

void Line::push(std::vector<std::byte> frame, std::size_t most_queued_bytes) {
  if (state_ != State::kOpen || leaving_) return;
  queued_bytes_ += frame.size();
  outgoing_.push_back(std::move(frame));
  while (queued_bytes_ > most_queued_bytes && outgoing_.size() > 1) {
    queued_bytes_ -= outgoing_[1].size();
    outgoing_.erase(outgoing_.begin() + 1);
  }
}

void Line::fail(int error) {
  // After a reset comes what was sent before it, or nothing; after all else nobody is accused.
  state_ = error == ECONNRESET || error == EPIPE ? State::kClosed : State::kBroken;
  problem_ = std::strerror(error);
}

void Line::write() {
  full_ = false;
  while (state_ == State::kOpen && !outgoing_.empty()) {
    const std::span<const std::byte> rest = std::span(outgoing_.front()).subspan(sent_);
    const std::ptrdiff_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      full_ = true;
      return;
    }
    if (sent < 0) {
      const int error = errno;
      read();  // its last words
      return fail(error);
    }
    sent_ += static_cast<std::size_t>(sent);
    if (sent_ < outgoing_.front().size()) continue;
    queued_bytes_ -= outgoing_.front().size();
    outgoing_.pop_front();
    sent_ = 0;
  }
  if (leaving_ && outgoing_.empty()) ::shutdown(socket_.get(), SHUT_WR);
}

void Line::read() {
  std::array<std::byte, 16 << 10> bytes;  // NOLINT(*-member-init): filled by what comes
  for (std::size_t share = 0; share < kShare && state_ == State::kOpen;) {
    const std::ptrdiff_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return fail(got == 0 ? ECONNRESET : errno);
    share += static_cast<std::size_t>(got);
    if (!leaving_) reader_.add(std::span(bytes).first(static_cast<std::size_t>(got)));
  }
}

void Line::say_goodbye(Deadline until) {
  if (leaving_) return;
  push(tcp::framed_goodbye(), SIZE_MAX);
  leaving_ = until;
  if (!full_) write();
}

}  // namespace daso
