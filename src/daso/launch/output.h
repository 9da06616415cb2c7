// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  // Why something was lost, as an errno; 0: nothing was, or only its reader has left.
  int lost() const { return lost_; }

 private:
  int descriptor_;
  std::deque<std::string> queue_;
  std::size_t written_ = 0;  // of the first in the queue
  bool broken_ = false;      // nothing can be written any more
  int lost_ = 0;
};

// The last lines of one stream of a rank.
class LastLines {
 public:
  void add(std::string_view line);
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  std::deque<std::string> lines_;
};

// How the line begins by which a Python program says that an uncaught PeerError ends it. It ends
// with exit code 1, as by any exception, which then counts as kExitPeer.
inline constexpr std::string_view kPythonPeerMark = "daso: lost peer: PeerError: ";

// The lines by which ranks report errors: "daso: ..." on standard error, warnings and notes apart.
// The last of a rank counts, since the others have not ended it.
class ErrorLines {
 public:
  // Notes the line of this rank, if it is one. False where it is not to be shown: the launcher
  // names the cause of a lost peer itself, and what another rank has said already is said once.
  bool take(int rank, std::string_view line);

  std::vector<int> leaders() const;  // ranks whose line was shown, in the order of these lines
  bool shown(int rank) const;
  // What the rank's line said, if it was held back.
  std::optional<std::string> held_back(int rank) const;
  // The last thing that the rank said is that an uncaught PeerError ends it.
  bool peer_error(int rank) const;
  // The first line of all that told of a lost peer.
  const std::optional<std::string>& lost_peer() const { return lost_peer_; }

 private:
  struct Said {
    int rank;
    std::string line;
    bool shown;
  };
  std::vector<Said> said_;  // one a rank, the latest at the end
  std::optional<std::string> lost_peer_;
};

// One stream of one rank: cuts it into lines and hands them on, with a prefix.
class LineStream {
 public:
  struct Options {
    Sink* sink;
    LastLines* last;               // null: not kept
    std::string prefix;            // empty: bytes pass as they are
    ErrorLines* errors = nullptr;  // decides about lines that report errors; null: all are shown
    int rank = 0;                  // for it
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

// The width of the terminal that standard output goes to, also through our launcher; none if it
// goes elsewhere. mpirun gives its ranks a terminal of its own making, whatever it does with what
// they print: that is none.
std::optional<int> terminal_columns();

}  // namespace daso
