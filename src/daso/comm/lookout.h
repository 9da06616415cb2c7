// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "daso/comm/alarm.h"
#include "daso/comm/store.h"

namespace daso {

// The process that has started this one, where it is a launcher that ends its ranks.
struct Parent {
  pid_t pid = 0;     // 0: nobody is watched
  std::string name;  // of the launcher, for messages
  Seconds patience{
      0};  // from its end to the alarm, for somebody else to end the rank in good order
};

// Who stands watch over what.
struct Watch {
  int rank = 0;
  std::vector<int> launch_ranks;   // of each rank of this generation: its number at the start
  std::vector<std::string> names;  // of each rank, for messages: rank 3 (node1, host h)
  // How many operations this rank has begun on each group.
  std::function<std::map<std::string, std::int64_t>()> begun;
  Parent parent;
  bool hosts_store = false;  // which then goes with this rank
  // Launchers decide who is lost (views.h): nobody calls the roll.
  bool launchers_decide = false;
};

// One thread in every rank that looks at the store for bad news ten times a second, so that a
// failure which one rank meets reaches all of them within a fraction of a second, whatever they are
// waiting for. A connection that breaks tells a rank only about its neighbour: Gloo's others would
// wait for their limit, and would not know who was lost.
//
// When a rank meets a failure it rings. Everybody then answers the roll call, and who has not
// answered after kRollCall is missing: the first that has counted decides who that is, for all. A
// launcher that saw a rank end says so itself (report_gone). A rank whose launcher is gone rings as
// well, instead of training on as an orphan that nobody can stop. A roll call takes the same few
// requests of every rank, however many ranks there are.
class Lookout {
 public:
  static constexpr Seconds kRollCall{0.5};

  // `root` is the job's table; `generation` tells apart the worlds that are built on it in turn.
  Lookout(const Store& root, int generation, Watch watch, std::shared_ptr<Alarm> alarm);
  // Ends the watch. Other ranks then count this one as missing, unless it has said farewell().
  ~Lookout();

  // Something failed here: calls the roll and returns what came out, which the alarm has then been
  // raised with. Blocks for a little more than kRollCall. Where launchers decide it waits for their
  // word instead, which is mostly there within milliseconds.
  Failure ring(const std::string& reason);
  // Raises the alarm on all ranks with a failure that is known in full.
  Failure spread(Failure failure);
  // Knows the ranks by name from now on.
  void introduce(std::vector<std::string> names);
  // This rank ends in good order.
  void farewell();

 private:
  void keep_watch(const std::stop_token& stop);
  void ring_if_reported();
  void ring_if_orphaned();
  bool look();  // true once the alarm is raised
  Failure call_roll(const std::string& reason);
  std::vector<std::string> verdicts(const std::vector<int>& missing) const;
  std::string name_of(int rank) const;

  const Watch watch_;
  const std::shared_ptr<Alarm> alarm_;
  mutable std::mutex mutex_;  // guards the names and the request to ring
  std::condition_variable_any wake_;
  std::vector<std::string> names_;
  std::string request_;                        // what to write into the store; empty: nothing
  std::optional<Clock::time_point> orphaned_;  // since when, on the lookout's thread
  const Store root_;
  const Store table_;  // this generation's part
  std::jthread thread_;
};

// From now on what launchers see is about this generation, of ranks that had these numbers at the
// start. By one rank, before the generation's lookouts are posted.
void begin_generation(const Store& root, int generation, const std::vector<int>& launch_ranks);

// For a launcher that saw a rank end: `how` reads on from the rank's name, as in "was ended by
// signal 9 (Killed)".
void report_gone(const Store& root, int launch_rank, const std::string& how);
// All that launchers have seen to end, by their numbers at the start.
std::set<int> reported_gone(const Store& root);

}  // namespace daso
