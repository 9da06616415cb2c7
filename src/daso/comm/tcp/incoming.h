// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <optional>

#include "daso/base/seconds.h"
#include "daso/comm/tcp/letter.h"

namespace daso::tcp {

// The receiving half of a connection: reads frames as letters, straight to where they are awaited.
class Incoming {
 public:
  struct Arrived {
    bool closed = false;         // by the other end; nothing comes any more
    bool goodbye = false;        // it has sent all its letters
    bool receipt_due = false;    // it waits to hear what is here
    std::uint64_t received = 0;  // letters that it has of ours
    std::vector<Tag> damaged;    // on their way here: to be asked for again
    std::vector<Tag> wanted;     // of ours, that it wants again
    std::vector<Done> done;
  };
  // Reads what is there, up to a share, and adds what came of it. Throws PeerError for a header
  // that is damaged, a letter that is for the second time, and what was not awaited in this length.
  void read(int socket, Letterbox& box, Arrived& result);

  // Letters that are here, up to the first that was damaged.
  std::uint64_t received() const { return holes_.empty() ? ended_ : holes_.front().number; }

  Clock::time_point last_read() const { return last_read_; }
  void forgive() { last_read_ = Clock::now(); }

 private:
  struct Reading {
    Header header;
    std::span<std::byte> room;
    std::size_t got = 0;
    std::uint32_t checksum = 0;
  };
  // A letter that was damaged and comes again. They do so in the order in which they were asked
  // for.
  struct Hole {
    Tag tag;
    std::span<std::byte> room;
    std::uint64_t number = 0;
  };

  std::ptrdiff_t receive_part(int socket);
  void take_letter_end(Letterbox& box, Arrived& result);
  void take_damaged(Arrived& result);
  void take_header(Letterbox& box, Arrived& result);
  std::span<std::byte> room_again(const Header& header) const;
  void wake_for(int socket, std::size_t bytes);

  std::optional<Reading> letter_;  // none between two frames
  // The checksum of a letter, where one is on its way, and the next header: read in one call.
  std::array<std::byte, kChecksumBytes + kHeaderBytes> after_{};
  std::size_t after_got_ = 0;
  std::uint64_t ended_ = 0;  // letters whose end has come, whole or not
  std::deque<Hole> holes_;
  std::size_t wake_bytes_ = 1;
  Clock::time_point last_read_ = Clock::now();
};

}  // namespace daso::tcp
