// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

// What the ranks print, on its way to the launcher's own streams.
namespace daso {

// One of the launcher's own streams. What does not fit waits here, so that a slow reader loses
// nothing and never keeps the launcher from hearing a signal.
class Sink {
 public:
  explicit Sink(int descriptor) : descriptor_(descriptor) {}

  int descriptor() const { return descriptor_; }
  bool waiting() const { return !queue_.empty(); }
  void add(std::string text);
  // To be called when poll() says that the stream takes something; then it does not block. Lines of
  // up to 4096 bytes go out in one write.
  void write_some();

 private:
  int descriptor_;
  std::deque<std::string> queue_;
  std::size_t written_ = 0;  // of the first in the queue
  bool broken_ = false;      // nobody reads any more
};

// The last lines that a rank has printed.
class LastLines {
 public:
  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::deque<std::string> lines_;
};

// One stream of one rank: cuts it into lines and hands them on, with a prefix.
class LineStream {
 public:
  struct Options {
    Sink* sink;
    LastLines* last;     // null: not kept
    std::string prefix;  // empty: bytes pass as they are
    // Takes the first line that starts with kLostPeerMark: the launcher names the cause itself, so
    // what it led to is held back. Null: such lines are like others.
    std::optional<std::string>* lost_peer = nullptr;
  };
  explicit LineStream(Options options) : options_(std::move(options)) {}

  void feed(std::string_view bytes);
  // The stream has ended: what is left is a line too.
  void finish();

 private:
  void emit(std::string_view piece);

  Options options_;
  std::string rest_;       // of a line whose end has not come yet
  bool inside_ = false;    // the next piece goes on in the same line
  bool after_cr_ = false;  // the last piece ended with a carriage return
};

}  // namespace daso
