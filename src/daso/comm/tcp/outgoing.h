// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>

#include "daso/comm/tcp/letter.h"

namespace daso::tcp {

// The sending half of a connection: writes letters as frames, and keeps those that the other end
// does not have yet, which it may ask for again.
//
// Every frame says how many letters have come from the other end, so nobody waits for receipts in
// vain, and mostly nothing is sent for them alone: of short letters a copy is kept, and many long
// ones stay as they are by themselves (Letter::stays). Only the rest asks for a receipt at once.
class Outgoing {
 public:
  void push(Letter letter);
  void push(Header::Kind kind);  // kBeat or kGoodbye
  // Before the letters that wait: this one of the other end was damaged on its way here.
  void ask_again(const Tag& tag);
  // The other end wants to know soon which of its letters are here.
  void owe_receipt() { receipt_due_ = true; }

  bool empty() const { return waiting_.empty() && urgent_.empty() && !receipt_due_; }
  bool all_received() const { return kept_.empty(); }  // of those that were sent

  // Sends what the socket takes, up to a share, and adds what need not wait any longer. `received`
  // letters have come from the other end. Throws PeerError.
  void write(int socket, std::uint64_t received, std::vector<Done>& done);

  // The other end says: it has so many letters; it wants one again. Both throw PeerError for what
  // cannot be.
  void take_receipt(std::uint64_t received, std::vector<Done>& done);
  void send_again(const Tag& tag);

  // Those that will not be sent any more, or were sent and not received.
  std::vector<Done> give_up();

 private:
  struct Frame {
    Header header;
    Letter letter;
    std::shared_ptr<const std::vector<std::byte>> copy;  // of one that is sent again
    std::array<std::byte, kHeaderBytes> head{};
    std::array<std::byte, kChecksumBytes> tail{};
    std::size_t sent = 0;    // of head, letter and tail together
    std::size_t summed = 0;  // of the letter
    std::uint32_t checksum = 0;

    std::size_t size() const;
  };
  struct Kept {
    Letter letter;  // without `done` if that has been called
    std::uint32_t checksum = 0;
    std::shared_ptr<const std::vector<std::byte>> copy;  // null: its bytes are where they were
  };

  std::deque<Frame>* next_queue();
  void begin(Frame& frame, std::uint64_t received);
  std::size_t send_part(int socket, Frame& frame);
  void keep(Frame& frame, std::vector<Done>& done);

  std::deque<Frame> waiting_;
  std::deque<Frame> urgent_;
  bool receipt_due_ = false;
  std::deque<Kept> kept_;         // in the order in which they were sent
  std::uint64_t received_ = 0;    // letters, by the other end: those before kept_
  std::size_t copied_bytes_ = 0;  // in kept_
};

}  // namespace daso::tcp
