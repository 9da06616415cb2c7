// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <climits>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/base/worker.h"
#include "daso/comm/launcher_line.h"
#include "daso/launch/rank_line.h"
#include "daso/launch/switchboard.h"
#include "daso/launch/tie_break.h"
#include "daso/membership/membership.h"

namespace daso {

// The launchers of other nodes, where this one has a single node.
struct OtherLaunchers {
  std::map<membership::NodeId, Address> nodes;  // numeric addresses
  int listening = -1;                           // a descriptor that becomes the keeper's
  std::string key;                              // of the job
  bool joins = false;                           // they are at work already
};

struct ViewKeeperOptions {
  std::vector<int> ranks_per_node;  // of the whole job
  std::vector<int> own;             // the nodes whose ranks this launcher starts
  Address store;                    // where ranks meet in views that begin with one of these
  membership::Options rules;        // nodes beyond the seats stand by
  std::optional<OtherLaunchers> others;
  std::function<std::unique_ptr<TieBreak>(const membership::Member& self)> make_tie_break;  // or {}
  // What there is to tell people; on the keeper's thread.
  std::function<void(const membership::View& view)> on_view;  // each once, ascending
  std::function<void()> on_finished;  // another launcher says that the run has come to its end
};

// Takes part in the decisions about views (membership.h) for the nodes of this launcher, and tells
// their ranks, over a line to each of them (comm/launcher_line.h). One thread of its own does all
// of it; the functions below are for any other.
class ViewKeeper {
 public:
  explicit ViewKeeper(ViewKeeperOptions options);
  ViewKeeper(const ViewKeeper&) = delete;
  ViewKeeper& operator=(const ViewKeeper&) = delete;
  ~ViewKeeper();

  // The rank's end of a line, for the process that will be this rank.
  FileDescriptor open_line(int node, int local_rank);
  // The nodes are members of the first view, once all launchers have met; or else they join.
  void begin();
  // The run has come to its end here: other launchers need not wait for anybody.
  void tell_others_of_end();
  // Who has not come yet, and why, as far as it is known; empty: all have met.
  std::string missing();
  // The ranks of a node are gone, or as good as gone.
  void lost(int node);
  // A node that was lost has been started again: it joins when all its ranks ask for a view.
  void come_back(int node);
  // The ranks of a node have come to the end of the run. The others are about to, and are left in
  // peace unless they say that they cannot.
  void finished(int node);
  // A node is told to leave, of which the other launchers hear.
  void announce_leaving(int node);
  // How many members stay when all have left that are told to.
  int staying() const { return staying_; }
  // A node leaves in good order: after its next exchange, or a while.
  void leave(int node);
  // Others take this launcher for dead at once, instead of waiting for what it says next.
  void vanish();

  // A node that cannot stay as it is, though its ranks run: they are to be killed.
  struct Unfit {
    int node = 0;
    std::string why;
  };
  // Those found since the last call, each once for each of its lives.
  std::vector<Unfit> take_unfit();
  // A rank of it has been told a view, since the node was started last.
  bool has_entered(int node) const;
  // Any of our ranks has ever asked for a view; else it may be that the program knows of none.
  bool has_been_asked() const { return has_been_asked_; }
  // None of our nodes is in a view any more: what the run has learned is gone.
  bool nobody_left() const { return nobody_left_; }
  // Our node has lost the majority of the others. Its ranks are told, and save what they have.
  bool cut_off() const { return cut_off_; }
  // Of the last view that we have been in.
  int members() const { return members_; }
  // What people should know, since the last call.
  std::vector<std::string> take_notices();

 private:
  // A node of this launcher.
  struct Node {
    std::uint64_t incarnation = 0;
    std::optional<membership::Membership> membership;  // none: it is lost
    std::map<int, RankLine> lines;                     // by local rank
    std::map<std::int64_t, bool> outcomes;             // of exchanges, as far as they are known
    bool waits = false;                                // to join, until all its ranks are there
    std::string copy_to;                               // it joins, and waits there for a copy
    bool finished = false;                             // its ranks have ended, and well
    std::optional<Seconds> leaves_by;                  // it is about to leave, then at the latest
    bool left = false;                                 // it has: its ranks may end
    bool cut_off = false;                              // from the majority: they save and end
    Seconds next_wait{0};                              // when to tell them that there is no seat
    bool unfit = false;                                // the launcher is told so
    // A rank met an error between the nodes, in this view, that no loss explains so far.
    struct Trouble {
      Seconds when{0};
      membership::ViewNumber view = 0;
    };
    std::optional<Trouble> trouble;
  };

  void post(std::function<void()> task);
  void work(const std::stop_token& stop);
  void wait_for_news();
  void take_tasks();
  void read_lines();
  void hear(int number, Node& node, RankLine& line, std::string text);
  static bool acts_in_view(const Node& node, const RankLine& line);
  void answer(int number, Node& node);
  static std::string start(Node& node, std::int64_t exchange);
  void tell_all(Node& node, const std::string& text);
  void tick();
  void watch_ranks(Seconds now);
  void renew_if_due(Node& node, Seconds now);
  void count_staying();
  bool lose_finished();  // whether there were any
  void declare_unfit(int number, Node& node, std::string why);
  // Does what the memberships say until none says anything more.
  void act();
  void perform(int number, Node& node, const membership::Action& action);
  void connect();
  void greet(const membership::Member& member, const Greeting& greeting);
  void begin_first_view();
  void note(const membership::View& view);
  void claim(int number, const membership::Claim& claim);
  void be_cut_off(Node& node);
  void keep_waiting(Node& node, Seconds now);
  NextView last_view(const Node& node) const;
  bool stands_by(int node) const {
    return node >= static_cast<int>(std::min(options_.rules.seats, options_.ranks_per_node.size()));
  }
  void lose(int number);
  void join(int number);
  std::optional<Address> store_of(const membership::View& view) const;
  NextView told(const membership::View& view, const Address& store) const;

  const ViewKeeperOptions options_;
  const Clock::time_point start_ = Clock::now();
  std::map<int, Node> nodes_;
  std::vector<std::pair<int, membership::Message>> mail_;                     // between own nodes
  std::map<membership::ViewNumber, std::vector<membership::Member>> claims_;  // the first of each
  membership::ViewNumber last_told_ = 0;                                      // by on_view
  std::vector<DecidedView> decided_;  // since this launcher takes part
  struct Launcher {
    membership::Member member;
    Address store;
  };
  std::map<int, Launcher> known_;            // of other nodes, as they have greeted
  std::vector<membership::Member> leavers_;  // who were told to leave, of all launchers
  Seconds next_word_of_leaving_{0};
  std::atomic<int> staying_ = INT_MAX;
  bool met_ = false;  // the first view has begun, or this launcher joins
  Seconds last_watch_{0};
  std::atomic<bool> nobody_left_ = false;
  std::atomic<bool> cut_off_ = false;
  std::atomic<int> members_ = INT_MAX;
  bool claiming_ = false;  // the tie-break is being asked
  std::atomic<bool> has_been_asked_ = false;
  FileDescriptor wake_;
  mutable std::mutex mutex_;  // guards the next
  std::vector<std::function<void()>> tasks_;
  std::vector<Unfit> unfit_;
  std::vector<std::string> notices_;
  std::set<int> entered_;
  std::unique_ptr<TieBreak> tie_break_;  // of the next, but for its making
  std::optional<Worker> tie_breaker_;    // waits for disks and witnesses; it posts tasks
  std::jthread thread_;
  std::optional<Switchboard> switchboard_;  // last: it posts tasks
};

}  // namespace daso
