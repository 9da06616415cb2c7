// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/comm/tcp/frame.h"
#include "daso/membership/view.h"

namespace daso {

// One socket between two launchers that have proved themselves: frames out and in, as far as the
// socket goes without blocking.
class Line {
 public:
  enum class State {
    kOpen,
    kClosed,  // by the other end, or by the death of it
    kBroken,  // by the network; nothing is known of the other end
  };

  // `node` is who has proved itself. `stalled`: after which the system gives it up.
  Line(FileDescriptor socket, membership::NodeId node, Seconds stalled);

  int descriptor() const { return socket_.get(); }
  membership::NodeId node() const { return node_; }
  State state() const { return state_; }
  const std::string& problem() const { return problem_; }  // of one that is not open

  // Beyond so many bytes the oldest frames go, but for the one that is on its way.
  void push(std::vector<std::byte> frame, std::size_t most_queued_bytes);
  bool has_outgoing() const { return !outgoing_.empty(); }
  bool is_full() const { return full_; }  // it takes no more for now
  void write();

  // What is there, up to a share.
  void read();
  // Of what has been read; throws as tcp::FrameReader does.
  std::optional<tcp::FrameReader::Frame> next(std::size_t most_bytes) {
    return reader_.next(most_bytes);
  }

  // The last frame: nothing is sent after it, and what still comes is nobody's.
  void say_goodbye(Deadline until);
  const std::optional<Deadline>& leaving() const { return leaving_; }

 private:
  void fail(int error);

  FileDescriptor socket_;
  membership::NodeId node_;
  State state_ = State::kOpen;
  std::string problem_;
  std::deque<std::vector<std::byte>> outgoing_;
  std::size_t queued_bytes_ = 0;
  std::size_t sent_ = 0;  // of the first frame
  bool full_ = false;
  tcp::FrameReader reader_;
  std::optional<Deadline> leaving_;
};

}  // namespace daso
