// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daso/comm/views.h"
#include "daso/record/membership.h"

namespace daso {

class Run;    // in run.h
class World;  // in world.h

// The views of a run that is over, told once more to a rank of another job, without launchers that
// decide anything and without a fault: each node enters the same views with the same members,
// leaves each of them where it did then, and the same exchanges count. What comes
// out must be the same bytes.
//
// A node that was lost trains on until the others leave the view, since they may have merged what
// it sent; what it has then is dropped, and it comes back with nothing.
class Replay final : public ViewSource {
 public:
  // `run` is the folder of the run; the ranks of the replay meet at `store`. Throws ConfigError for
  // a run that cannot be replayed.
  Replay(const std::filesystem::path& run, int rank, Address store);

  // The views up to this one are over for this process, which was started anew for the next.
  void skip(std::int64_t view);

  NextView next_view(Seconds limit) override;
  bool over() const override { return !next(); }
  // There are no faults in a replay: throws PeerError.
  void trouble(const std::string& what) override;

  Start start(std::int64_t exchange) override;
  bool joiners_wait() override { return !joiners_.empty(); }
  std::vector<std::string> take_joiners() override { return std::exchange(joiners_, {}); }
  void prepared(std::int64_t /*exchange*/) override {}
  bool committed(std::int64_t exchange, Seconds limit) override;
  bool ended() override { return false; }
  void when_ended(std::function<void()> /*action*/) override {}

 private:
  std::optional<std::size_t> next() const;  // the view to enter next; none: there is none
  std::optional<std::size_t> next_after(std::size_t view, int node) const;
  std::optional<LeftAt> left_by(int node, std::size_t view) const;  // none: it was lost
  std::optional<ViewEnd> end_of(std::size_t view) const;
  Start outcome_of_start(std::int64_t exchange) const;
  // The first exchange that does not belong to the present view; none: the run ended in it.
  std::optional<std::int64_t> first_beyond() const;

  const std::vector<ViewRecord> views_;     // that somebody has entered
  const std::vector<DecidedView> decided_;  // all that launchers have decided on
  const std::optional<StoppedAt> stop_;
  const Address store_;
  int node_ = -1;  // this rank's; -1: it has no part in the run
  std::set<std::int64_t> abandoned_;
  std::optional<std::size_t> current_;
  std::vector<std::string> joiners_;  // that this node made a copy for at the exchange started last
};

// The checkpoint that the last job of a run went on from, which its replay begins with; empty: it
// began at the first step. Throws ConfigError where it is not there any more.
std::filesystem::path beginning_of(const std::filesystem::path& run);

// A replay leaves its view where the run did, and all nodes at the same time: what one of them has
// begun others may need. All ranks call it together; in the middle of a view it does nothing.
void end_by_script(World& world, const Run& run);

// Throws Error unless the replay of `run` in `out` has ended with the same bytes. For people.
std::string compare_replay(const std::filesystem::path& run, const std::filesystem::path& out);

// In what the newest checkpoints of two runs differ, for people; empty: in nothing.
std::string difference(const std::filesystem::path& run, const std::filesystem::path& other);

}  // namespace daso
