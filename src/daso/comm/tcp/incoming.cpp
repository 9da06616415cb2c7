// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/incoming.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daso/base/error.h"
#include "daso/comm/tcp/integrity.h"

namespace daso::tcp {
namespace {

constexpr std::size_t kShare = 1 << 20;    // bytes, before others have their turn
constexpr std::size_t kPiece = 256 << 10;  // its checksum is taken while it is in the cache
// Waking up for every segment that a slow link brings costs more than all the rest.
constexpr std::size_t kWorthWaking = 64 << 10;

iovec part_of(std::span<std::byte> bytes) {
  return {.iov_base = bytes.data(), .iov_len = bytes.size()};
}

}  // namespace

void Incoming::wake_for(int socket, std::size_t bytes) {
  if (bytes == wake_bytes_) return;
  const int low = static_cast<int>(bytes);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
  wake_bytes_ = bytes;
}

// What the socket has, into the letter and behind it. -1: nothing; 0: the end.
std::ptrdiff_t Incoming::receive_part(int socket) {
  std::array<iovec, 2> parts{};
  std::size_t used = 0;
  std::size_t rest = 0;
  if (letter_) {
    const std::span<std::byte> room = letter_->room.subspan(letter_->got);
    rest = std::min(room.size(), kPiece);
    if (rest > 0) parts[used++] = part_of(room.first(rest));
  }
  // Behind a letter come its checksum and a header, else a header alone.
  const bool whole = !letter_ || letter_->got + rest == letter_->room.size();
  const std::size_t awaited = letter_ ? after_.size() : kHeaderBytes;
  if (whole) parts[used++] = part_of(std::span(after_).subspan(after_got_, awaited - after_got_));
  const std::ptrdiff_t got = ::readv(socket, parts.data(), static_cast<int>(used));
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return -1;
    if (errno == ECONNRESET) return 0;
    throw PeerError(fmt::format("receiving from it failed: {}", std::strerror(errno)));
  }
  const std::size_t bytes = static_cast<std::size_t>(got);
  const std::size_t of_letter = std::min(bytes, rest);
  if (of_letter > 0) {
    Reading& letter = *letter_;
    letter.checksum = crc32c(letter.checksum, letter.room.subspan(letter.got, of_letter));
    letter.got += of_letter;
  }
  after_got_ += bytes - of_letter;
  return got;
}

void Incoming::take_letter_end(Letterbox& box, Arrived& result) {
  if (!letter_ || letter_->got < letter_->room.size() || after_got_ < kChecksumBytes) return;
  std::uint32_t checksum = 0;
  std::memcpy(&checksum, after_.data(), sizeof checksum);
  const Header& header = letter_->header;
  if (checksum != letter_->checksum) {
    take_damaged(result);
  } else {
    const bool again = header.kind == Header::Kind::kAgain;
    if (Done done = box.arrived(header.tag)) result.done.push_back(std::move(done));
    again ? holes_.pop_front() : void(++ended_);
    result.receipt_due = result.receipt_due || header.kind != Header::Kind::kLetter;
  }
  letter_.reset();
  after_got_ -= kChecksumBytes;
  std::memmove(after_.data(), after_.data() + kChecksumBytes, after_got_);
}

void Incoming::take_damaged(Arrived& result) {
  const auto& [kind, tag, length, received] = letter_->header;
  if (kind == Header::Kind::kAgain) {
    throw PeerError(
        fmt::format("letter {}/{} of {} bytes from it was damaged on the way, and again when it "
                    "was sent once more (its checksum is wrong)",
                    tag.group, tag.number, length));
  }
  holes_.push_back({.tag = tag, .room = letter_->room, .number = ended_++});
  result.damaged.push_back(tag);
}

std::span<std::byte> Incoming::room_again(const Header& header) const {
  if (holes_.empty() || holes_.front().tag != header.tag ||
      holes_.front().room.size() != header.length) {
    throw PeerError(fmt::format("it sent letter {}/{} again, for which it was not asked",
                                header.tag.group, header.tag.number));
  }
  return holes_.front().room;
}

void Incoming::take_header(Letterbox& box, Arrived& result) {
  if (letter_ || after_got_ < kHeaderBytes) return;
  const std::optional<Header> header = decode(std::span(after_).first<kHeaderBytes>());
  if (!header) throw PeerError("what it sent was damaged on the way (no header of ours)");
  after_got_ = 0;
  result.received = header->received;
  switch (header->kind) {
    case Header::Kind::kLetter:
    case Header::Kind::kRegistered:
      letter_ = {.header = *header, .room = box.room_for(header->tag, header->length)};
      break;
    case Header::Kind::kAgain:
      letter_ = {.header = *header, .room = room_again(*header)};
      break;
    case Header::Kind::kDamaged:
      result.wanted.push_back(header->tag);
      break;
    case Header::Kind::kGoodbye:
      result.goodbye = result.receipt_due = true;  // before it is gone it hears what is here
      break;
    case Header::Kind::kBeat:
    case Header::Kind::kReceipt:
      break;
  }
}

void Incoming::read(int socket, Letterbox& box, Arrived& result) {
  std::size_t share = kShare;
  while (share > 0) {
    const std::ptrdiff_t got = receive_part(socket);
    if (got == 0) result.closed = true;
    if (got <= 0) break;
    last_read_ = Clock::now();
    share -= std::min(share, static_cast<std::size_t>(got));
    take_letter_end(box, result);
    take_header(box, result);
    // An empty letter ends where it begins.
    take_letter_end(box, result);
  }
  const std::size_t left = letter_ ? letter_->room.size() - letter_->got : 0;
  wake_for(socket, left > kWorthWaking ? kWorthWaking : 1);
}

}  // namespace daso::tcp
