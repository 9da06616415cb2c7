// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <optional>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/comm/tcp/letter.h"

namespace daso::tcp {

// One socket between two ranks that have proved themselves: writes letters as frames and reads
// frames as letters, as far as the socket goes without blocking. Knows nothing of other threads.
class Connection {
 public:
  explicit Connection(FileDescriptor socket);

  int descriptor() const { return socket_.get(); }

  void push(Letter letter);
  void beat();
  void say_goodbye();
  bool has_outgoing() const { return !outgoing_.empty(); }

  // Sends what the socket takes, up to a share, and gives what is sent. Throws PeerError.
  std::vector<Done> write();
  // Those that will not be sent any more.
  std::vector<Done> give_up();

  struct Arrived {
    bool closed = false;   // by the other end; nothing comes any more
    bool goodbye = false;  // and it had said so
    std::vector<Done> done;
  };
  // Reads what is there, up to a share. Throws PeerError for what is damaged or was not awaited in
  // this length.
  Arrived read(Letterbox& box);

  Clock::time_point last_read() const { return last_read_; }
  void forgive() { last_read_ = Clock::now(); }  // its silence until now
  void half_close();                             // nothing is sent any more

 private:
  struct Outgoing {
    Header header;
    Letter letter;
    std::array<std::byte, kHeaderBytes> head{};
    std::array<std::byte, kChecksumBytes> tail{};
    std::size_t sent = 0;    // of head, letter and tail together
    std::size_t summed = 0;  // of the letter
    std::uint32_t checksum = 0;

    std::size_t size() const;
  };
  struct Incoming {
    Header header;
    std::span<std::byte> room;
    std::size_t got = 0;
    std::uint32_t checksum = 0;
  };

  void push(Header header, Letter letter);
  std::size_t send_part(Outgoing& front);
  std::ptrdiff_t receive_part();
  void take_letter_end(Letterbox& box, Arrived& result);
  void take_header(Letterbox& box, Arrived& result);
  void wake_for(std::size_t bytes);

  FileDescriptor socket_;
  std::deque<Outgoing> outgoing_;
  std::optional<Incoming> incoming_;  // none between two frames
  // The checksum of a letter, where one is on its way, and the next header: read in one call.
  std::array<std::byte, kChecksumBytes + kHeaderBytes> after_{};
  std::size_t after_got_ = 0;
  std::size_t wake_bytes_ = 1;
  Clock::time_point last_read_ = Clock::now();
};

}  // namespace daso::tcp
