// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"

namespace daso {

// The launcher's end of a line to one rank (comm/launcher_line.h), and what it is asked there. Does
// not block.
class RankLine {
 public:
  RankLine() = default;
  explicit RankLine(FileDescriptor socket);

  int descriptor() const { return socket_.get(); }
  bool open() const { return socket_.open(); }
  // The lines that have come since the last call; closes where the rank has ended.
  std::vector<std::string> read();
  // A rank that does not read is as good as gone: what does not fit is dropped with the line.
  void say(const std::string& line);

  // What the rank waits for: a view after that number, the outcome of that exchange.
  struct Question {
    std::string number;
    std::int64_t about = 0;
  };
  std::optional<Question> wants_view;
  std::optional<Question> wants_outcome;
  void answer(const Question& question, const std::string& text) {
    say(question.number + " " + text);
  }
  std::int64_t view = 0;         // the last that it was told: it speaks of this one
  std::optional<Seconds> heard;  // when it last said anything; none: not yet

 private:
  FileDescriptor socket_;
  std::string text_;  // the beginning of a line
};

}  // namespace daso
