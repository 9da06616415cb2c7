// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/base/file_descriptor.h"
#include "daso/comm/views.h"

namespace daso {

// The variable by which a launcher that decides views tells a rank the descriptor of its line.
inline constexpr const char* kLineVariable = "DASO_LAUNCHER_LINE";
// And that the others are at work already: this rank joins them when it is ready.
inline constexpr const char* kJoinsVariable = "DASO_JOINS";

// By which `daso run --replay` tells ranks the run that they do again, and where they write; and by
// which a rank that was lost in it tells itself the view that it was lost in.
inline constexpr const char* kReplayVariable = "DASO_REPLAY";
inline constexpr const char* kReplayOutVariable = "DASO_REPLAY_OUT";
inline constexpr const char* kReplayAfterVariable = "DASO_REPLAY_AFTER";

// For a program that joins one world for good, where a launcher was told that it goes on when nodes
// are lost. Throws ConfigError.
[[noreturn]] void throw_one_world();

// There is no next view for this rank: its node has left the run on purpose, and the others go on.
struct NodeLeft : Error {
  NodeLeft() : Error("this node has left the run; the others go on") {}
};

// A rank's line to its launcher, a socket that it was born with. Lines of text. A question has a
// number N, which its answer repeats: an answer that comes when nobody waits for it any more is
// dropped.
//
//   N next VIEW   N view {...} | N left       the first view after VIEW, once there is one
//                 N wait                      there is no seat for this node yet: ask again
//   N start K     N go [PLACE...] | N ended   and those wait at these places for a copy of the run
//   N outcome K   N commit | N abandon        once it is known
//
// These have no number and no answer:
//
//   prepared K
//   trouble VIEW TEXT
//   gives 0|1         this node has nothing that could be copied, or it has
//   copy PLACE        this node joins, and waits there for a copy
//   caught-up
//   beat              this process is not stopped
//
// The launcher says "ended VIEW" by itself when that view ends.
class LauncherLine final : public ViewSource {
 public:
  // Null: this process was not started by a launcher that decides views.
  static std::shared_ptr<LauncherLine> find(const Environment& environment);

  explicit LauncherLine(FileDescriptor socket, bool joins = false);
  LauncherLine(const LauncherLine&) = delete;
  LauncherLine& operator=(const LauncherLine&) = delete;
  ~LauncherLine() override;

  // Throws PeerError if there is none within the limit, or if the launcher is gone, and NodeLeft.
  NextView next_view(Seconds limit) override;
  Start start(std::int64_t exchange) override;
  void prepared(std::int64_t exchange) override;
  bool committed(std::int64_t exchange, Seconds limit) override;
  bool joiners_wait() override { return !joiners_.empty(); }
  std::vector<std::string> take_joiners() override;
  void copies_dropped() override { copied_to_.clear(); }
  void gives_copies(bool gives) override;
  bool joins() const override { return joins_; }
  void ask_copy(const std::string& place) override;
  void caught_up() override;
  void trouble(const std::string& what) override;
  bool ended() override;
  void when_ended(std::function<void()> action) override;

 private:
  void read(const std::stop_token& stop);
  void take(const std::string& line);
  void say(const std::string& line);
  void beat();
  // The answer without the question's number.
  std::string ask(const std::string& line, Seconds limit);

  const FileDescriptor socket_;
  const bool joins_;
  std::vector<std::string> joiners_;  // that the last start() has told of
  std::set<std::string> copied_to_;   // those that were taken
  std::mutex asking_;                 // one question at a time
  std::mutex mutex_;                  // guards what follows
  std::condition_variable changed_;
  std::uint64_t question_ = 0;         // the last one's number
  std::optional<std::string> answer_;  // to it
  std::int64_t view_ = 0;              // the last one that was told
  bool ended_ = false;                 // it has
  bool closed_ = false;                // the launcher is gone
  std::vector<std::function<void()>> actions_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace daso
