// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/outgoing.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "daso/base/error.h"
#include "daso/comm/tcp/integrity.h"

namespace daso::tcp {
namespace {

constexpr std::size_t kShare = 1 << 20;          // bytes, before others have their turn
constexpr std::size_t kPiece = 256 << 10;        // its checksum is taken while it is in the cache
constexpr std::size_t kWorthCopying = 64 << 10;  // longer letters: a receipt costs less
constexpr std::size_t kMostCopied = 4 << 20;     // bytes of all copies together

iovec part_of(std::span<const std::byte> bytes) {
  return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

}  // namespace

std::size_t Outgoing::Frame::size() const {
  if (!header.is_letter()) return head.size();
  return head.size() + letter.bytes.size() + tail.size();
}

void Outgoing::push(Letter letter) {
  Frame& last = waiting_.emplace_back();
  last.header = {.kind = Header::Kind::kLetter, .tag = letter.tag, .length = letter.bytes.size()};
  last.letter = std::move(letter);
}

void Outgoing::push(Header::Kind kind) { waiting_.emplace_back().header.kind = kind; }

void Outgoing::ask_again(const Tag& tag) {
  urgent_.emplace_back().header = {.kind = Header::Kind::kDamaged, .tag = tag};
}

// A frame that has begun comes first.
std::deque<Outgoing::Frame>* Outgoing::next_queue() {
  if (!waiting_.empty() && waiting_.front().sent > 0) return &waiting_;
  if (!urgent_.empty()) return &urgent_;
  return waiting_.empty() ? nullptr : &waiting_;
}

void Outgoing::begin(Frame& frame, std::uint64_t received) {
  Header& header = frame.header;
  if (header.kind == Header::Kind::kLetter && !frame.letter.stays) {
    const bool copied =
        header.length <= kWorthCopying && copied_bytes_ + header.length <= kMostCopied;
    if (!copied) header.kind = Header::Kind::kRegistered;
  }
  header.received = received;
  receipt_due_ = false;
  encode(header, frame.head);
}

// The next bytes of the frame, a piece of the letter at most. 0: the socket takes no more.
std::size_t Outgoing::send_part(int socket, Frame& frame) {
  const std::span<const std::byte> letter = frame.letter.bytes;
  std::array<iovec, 3> parts{};
  std::size_t used = 0;
  std::size_t from = frame.sent;
  if (from < frame.head.size()) parts[used++] = part_of(std::span(frame.head).subspan(from));
  from -= std::min(from, frame.head.size());
  if (frame.header.is_letter()) {
    const std::size_t begin = std::min(from, letter.size());
    if (frame.summed == begin) {
      const std::size_t end = std::min(letter.size(), begin + kPiece);
      frame.checksum = crc32c(frame.checksum, letter.subspan(begin, end - begin));
      frame.summed = end;
    }
    if (frame.summed > begin) {
      parts[used++] = part_of(letter.subspan(begin, frame.summed - begin));
    }
    if (frame.summed == letter.size()) {
      std::memcpy(frame.tail.data(), &frame.checksum, frame.tail.size());
      parts[used++] = part_of(std::span(frame.tail).subspan(from - begin));
    }
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = used;
  const std::ptrdiff_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    throw PeerError(fmt::format("sending to it failed: {}", std::strerror(errno)));
  }
  const auto bytes = static_cast<std::size_t>(std::max<std::ptrdiff_t>(sent, 0));
  frame.sent += bytes;
  return bytes;
}

void Outgoing::write(int socket, std::uint64_t received, std::vector<Done>& done) {
  std::size_t share = kShare;
  while (share > 0) {
    std::deque<Frame>* queue = next_queue();
    if (queue == nullptr) {
      if (!receipt_due_) return;
      urgent_.emplace_back().header.kind = Header::Kind::kReceipt;
      queue = &urgent_;
    }
    Frame& front = queue->front();
    if (front.sent == 0) begin(front, received);
    const std::size_t sent = send_part(socket, front);
    if (sent == 0) return;
    share -= std::min(share, sent);
    if (front.sent < front.size()) continue;
    if (front.header.is_letter() && front.header.kind != Header::Kind::kAgain) keep(front, done);
    queue->pop_front();
  }
}

void Outgoing::keep(Frame& frame, std::vector<Done>& done) {
  Kept& kept = kept_.emplace_back();
  kept.letter = std::move(frame.letter);
  kept.checksum = frame.checksum;
  if (frame.header.kind == Header::Kind::kRegistered) return;
  if (!kept.letter.stays) {
    const std::span<const std::byte> bytes = kept.letter.bytes;
    kept.copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
    kept.letter.bytes = *kept.copy;
    copied_bytes_ += bytes.size();
  }
  done.push_back(std::exchange(kept.letter.done, {}));
}

void Outgoing::take_receipt(std::uint64_t received, std::vector<Done>& done) {
  if (received > received_ + kept_.size()) {
    throw PeerError("it says that it has letters which were never sent to it");
  }
  for (; received_ < received; ++received_) {
    Kept& first = kept_.front();
    if (first.copy) copied_bytes_ -= first.copy->size();
    if (first.letter.done) done.push_back(std::move(first.letter.done));
    kept_.pop_front();
  }
}

void Outgoing::send_again(const Tag& tag) {
  // The newest: had an older one of this tag been damaged, the other end would not take another.
  const auto found = std::find_if(kept_.rbegin(), kept_.rend(),
                                  [&](const Kept& one) { return one.letter.tag == tag; });
  if (found == kept_.rend()) {
    throw PeerError(
        fmt::format("it wants letter {}/{} again, which it has", tag.group, tag.number));
  }
  const Letter& letter = found->letter;
  if (crc32c(0, letter.bytes) != found->checksum) {
    throw PeerError(
        fmt::format("letter {}/{} to it was damaged on the way, and cannot be sent again: its "
                    "memory has been used for something else",
                    tag.group, tag.number));
  }
  Frame& again = urgent_.emplace_back();
  again.header = {.kind = Header::Kind::kAgain, .tag = tag, .length = letter.bytes.size()};
  again.letter = {.tag = tag, .bytes = letter.bytes, .done = {}, .stays = letter.stays};
  again.copy = found->copy;
}

std::vector<Done> Outgoing::give_up() {
  std::vector<Done> all;
  for (Kept& one : kept_) {
    if (one.letter.done) all.push_back(std::move(one.letter.done));
  }
  for (Frame& one : waiting_) {
    if (one.letter.done) all.push_back(std::move(one.letter.done));
  }
  kept_.clear();
  waiting_.clear();
  urgent_.clear();
  receipt_due_ = false;
  return all;
}

}  // namespace daso::tcp
