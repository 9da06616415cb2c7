// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daso/base/error.h"
#include "daso/comm/tcp/integrity.h"

namespace daso::tcp {
namespace {

constexpr std::size_t kShare = 1 << 20;    // bytes in one direction, before others have their turn
constexpr std::size_t kPiece = 256 << 10;  // its checksum is taken while it is in the cache
// Waking up for every segment that a slow link brings costs more than all the rest.
constexpr std::size_t kWorthWaking = 64 << 10;

iovec part_of(std::span<const std::byte> bytes) {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

[[noreturn]] void throw_errno(const char* what) {
  throw PeerError(fmt::format("{} failed: {}", what, std::strerror(errno)));
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

Connection::Connection(FileDescriptor socket) : socket_(std::move(socket)) {
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

std::size_t Connection::Outgoing::size() const {
  if (header.kind != Header::Kind::kLetter) return head.size();
  return head.size() + letter.bytes.size() + tail.size();
}

void Connection::push(Header header, Letter letter) {
  Outgoing& last = outgoing_.emplace_back();
  last.header = header;
  last.letter = std::move(letter);
  encode(header, last.head);
}

void Connection::push(Letter letter) {
  const Header header{
      .kind = Header::Kind::kLetter, .tag = letter.tag, .length = letter.bytes.size()};
  push(header, std::move(letter));
}

void Connection::beat() { push({.kind = Header::Kind::kBeat, .tag = {}}, {}); }
void Connection::say_goodbye() { push({.kind = Header::Kind::kGoodbye, .tag = {}}, {}); }
void Connection::half_close() { ::shutdown(socket_.get(), SHUT_WR); }

// The next bytes of the first frame, a piece of the letter at most. 0: the socket takes no more.
std::size_t Connection::send_part(Outgoing& front) {
  const std::span<const std::byte> letter = front.letter.bytes;
  std::array<iovec, 3> parts{};
  std::size_t used = 0;
  std::size_t from = front.sent;
  if (from < front.head.size()) parts[used++] = part_of(std::span(front.head).subspan(from));
  from -= std::min(from, front.head.size());
  if (front.header.kind == Header::Kind::kLetter) {
    const std::size_t begin = std::min(from, letter.size());
    if (front.summed == begin) {
      const std::size_t end = std::min(letter.size(), begin + kPiece);
      front.checksum = crc32c(front.checksum, letter.subspan(begin, end - begin));
      front.summed = end;
    }
    if (front.summed > begin) {
      parts[used++] = part_of(letter.subspan(begin, front.summed - begin));
    }
    if (front.summed == letter.size()) {
      std::memcpy(front.tail.data(), &front.checksum, front.tail.size());
      parts[used++] = part_of(std::span(front.tail).subspan(from - begin));
    }
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = used;
  const std::ptrdiff_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  if (sent < 0 && !would_block()) throw_errno("sending to it");
  front.sent += static_cast<std::size_t>(std::max<std::ptrdiff_t>(sent, 0));
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(sent, 0));
}

std::vector<Done> Connection::write() {
  std::vector<Done> done;
  std::size_t share = kShare;
  while (!outgoing_.empty() && share > 0) {
    Outgoing& front = outgoing_.front();
    const std::size_t sent = send_part(front);
    if (sent == 0) break;
    share -= std::min(share, sent);
    if (front.sent < front.size()) continue;
    if (front.letter.done) done.push_back(std::move(front.letter.done));
    outgoing_.pop_front();
  }
  return done;
}

std::vector<Done> Connection::give_up() {
  std::vector<Done> all;
  for (Outgoing& one : outgoing_) {
    if (one.letter.done) all.push_back(std::move(one.letter.done));
  }
  outgoing_.clear();
  return all;
}

void Connection::wake_for(std::size_t bytes) {
  if (bytes == wake_bytes_) return;
  const int low = static_cast<int>(bytes);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
  wake_bytes_ = bytes;
}

// What the socket has, into the letter and behind it. -1: nothing; 0: the end.
std::ptrdiff_t Connection::receive_part() {
  std::array<iovec, 2> parts{};
  std::size_t used = 0;
  std::size_t rest = 0;
  if (incoming_) {
    const std::span<std::byte> room = incoming_->room.subspan(incoming_->got);
    rest = std::min(room.size(), kPiece);
    if (rest > 0) parts[used++] = part_of(room.first(rest));
  }
  // Behind a letter come its checksum and a header, else a header alone.
  const bool whole = !incoming_ || incoming_->got + rest == incoming_->room.size();
  const std::size_t awaited = incoming_ ? after_.size() : kHeaderBytes;
  if (whole) parts[used++] = part_of(std::span(after_).subspan(after_got_, awaited - after_got_));
  const std::ptrdiff_t got = ::readv(socket_.get(), parts.data(), static_cast<int>(used));
  if (got < 0) {
    if (would_block()) return -1;
    if (errno == ECONNRESET) return 0;
    throw_errno("receiving from it");
  }
  const std::size_t bytes = static_cast<std::size_t>(got);
  const std::size_t of_letter = std::min(bytes, rest);
  if (of_letter > 0) {
    Incoming& letter = *incoming_;
    letter.checksum = crc32c(letter.checksum, letter.room.subspan(letter.got, of_letter));
    letter.got += of_letter;
  }
  after_got_ += bytes - of_letter;
  return got;
}

void Connection::take_letter_end(Letterbox& box, Arrived& result) {
  if (!incoming_ || incoming_->got < incoming_->room.size() || after_got_ < kChecksumBytes) return;
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, after_.data(), sizeof checksum);
  if (checksum != incoming_->checksum) {
    throw PeerError("what it sent was damaged on the way (its checksum is wrong)");
  }
  if (Done done = box.arrived(incoming_->header.tag)) result.done.push_back(std::move(done));
  incoming_.reset();
  after_got_ -= kChecksumBytes;
  std::memmove(after_.data(), after_.data() + kChecksumBytes, after_got_);
}

void Connection::take_header(Letterbox& box, Arrived& result) {
  if (incoming_ || after_got_ < kHeaderBytes) return;
  const std::optional<Header> header = decode(std::span(after_).first<kHeaderBytes>());
  if (!header) throw PeerError("what it sent was damaged on the way (no header of ours)");
  after_got_ = 0;
  if (header->kind == Header::Kind::kGoodbye) result.goodbye = true;
  if (header->kind != Header::Kind::kLetter) return;
  incoming_ = Incoming{.header = *header, .room = box.room_for(header->tag, header->length)};
}

Connection::Arrived Connection::read(Letterbox& box) {
  Arrived result;
  std::size_t share = kShare;
  while (share > 0) {
    const std::ptrdiff_t got = receive_part();
    if (got == 0) result.closed = true;
    if (got <= 0) break;
    last_read_ = Clock::now();
    share -= std::min(share, static_cast<std::size_t>(got));
    take_letter_end(box, result);
    take_header(box, result);
    // An empty letter ends where it begins.
    take_letter_end(box, result);
  }
  const std::size_t left = incoming_ ? incoming_->room.size() - incoming_->got : 0;
  wake_for(left > kWorthWaking ? kWorthWaking : 1);
  return result;
}

}  // namespace daso::tcp
