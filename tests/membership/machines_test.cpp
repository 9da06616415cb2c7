// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "daso/membership/membership.h"

namespace daso::membership {
namespace {

using Phase = Membership::Phase;

// Machines whose messages arrive at once, except those of nodes that are cut off; ranks stop when
// they are told to.
class Machines {
 public:
  explicit Machines(unsigned nodes, bool tie_break = false)
      : Machines(nodes, Options{.tie_break = tie_break}) {}
  Machines(unsigned nodes, const Options& options) : options_(options) {
    View first{.number = 1};
    for (NodeId node = 0; node < nodes; ++node) first.members.push_back({node, 1});
    for (const Member& member : first.members) {
      machines_.emplace(member.node, Membership(options_, member, first, now_));
    }
    settle();
  }

  Membership& operator[](NodeId node) { return machines_.at(node); }
  void cut_off(NodeId node) { cut_off_.push_back(node); }
  void kill(NodeId node, bool seen = true) {
    const Member dead = machines_.at(node).self();
    machines_.erase(node);
    for (auto& [other, machine] : machines_) {
      if (seen) machine.died(dead, now_);
    }
    settle();
  }
  void join(const Member& member) {
    machines_.emplace(member.node, Membership(options_, member, {0, 1, 2, 3}, now_));
    machines_.at(member.node).ready();
  }
  void join_with_copy(const Member& member, const std::string& place) {
    machines_.emplace(member.node, Membership(options_, member, {0, 1, 2, 3}, now_));
    machines_.at(member.node).ask_copy(place);
  }
  void exchange(std::initializer_list<NodeId> nodes, ExchangeNumber number) {
    for (const NodeId node : nodes) EXPECT_TRUE((*this)[node].started(number));
    for (const NodeId node : nodes) EXPECT_TRUE((*this)[node].prepared(number));
    settle();
  }
  void pass(double seconds) {
    for (const Seconds end = now_ + Seconds(seconds); now_ < end;) {
      now_ += options_.period;
      for (auto& [node, machine] : machines_) machine.tick(now_);
      settle();
    }
  }
  // Nobody is called meanwhile.
  void sleep(double seconds) { now_ += Seconds(seconds); }
  Seconds now() const { return now_; }

  // Carries out everything until nothing is left to do.
  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (auto& [node, machine] : machines_) {
        for (const Action& action : machine.take_actions()) {
          again = true;
          perform(node, machine, action);
        }
      }
    }
  }

  std::map<NodeId, std::vector<ExchangeNumber>> merges;
  std::map<NodeId, End::Reason> ends;

 private:
  void perform(NodeId node, Membership& machine, const Action& action) {
    if (const auto* const send = std::get_if<Send>(&action)) {
      const auto to = machines_.find(send->to);
      const auto is_cut_off = [&](NodeId one) { return std::ranges::count(cut_off_, one) > 0; };
      if (to != machines_.end() && is_cut_off(node) == is_cut_off(send->to)) {
        to->second.receive(send->message, now_);
      }
    } else if (const auto* const freeze = std::get_if<Freeze>(&action)) {
      machine.frozen(freeze->view, std::nullopt, now_);
    } else if (const auto* const merge = std::get_if<Merge>(&action)) {
      merges[node].push_back(merge->exchange);
    } else if (const auto* const claim = std::get_if<Claim>(&action)) {
      machine.claimed(claim->view, claims_.try_emplace(claim->view, claim->half).first->second,
                      now_);
    } else if (const auto* const end = std::get_if<End>(&action)) {
      ends[node] = end->reason;
    }
  }

  Options options_;
  Seconds now_{0};
  std::map<NodeId, Membership> machines_;
  std::vector<NodeId> cut_off_;
  std::map<ViewNumber, std::vector<Member>> claims_;
};

std::vector<NodeId> nodes_in(const View& view) {
  std::vector<NodeId> nodes;
  for (const Member& member : view.members) nodes.push_back(member.node);
  return nodes;
}

TEST(Membership, GoesOnAtOnceWithoutANodeThatCertainlyDied) {
  Machines machines(3);
  machines.exchange({0, 1, 2}, 0);
  machines.kill(2);
  for (const NodeId node : {0U, 1U}) {
    EXPECT_EQ(Phase::kActing, machines[node].phase());
    EXPECT_EQ((std::vector<NodeId>{0, 1}), nodes_in(machines[node].view()));
    EXPECT_EQ((std::vector<ExchangeNumber>{0}), machines.merges[node]);
  }
}

TEST(Membership, CommitsALostNodesPartIfAllSurvivorsHoldIt) {
  Machines machines(3);
  for (const NodeId node : {0U, 1U, 2U}) EXPECT_TRUE(machines[node].started(0));
  for (const NodeId node : {0U, 1U}) EXPECT_TRUE(machines[node].prepared(0));
  machines.kill(2);
  EXPECT_EQ((std::vector<ExchangeNumber>{0}), machines.merges[0]);
  EXPECT_EQ((std::vector<ExchangeNumber>{0}), machines.merges[1]);
}

TEST(Membership, AbandonsWhatOneSurvivorLacks) {
  Machines machines(3);
  for (const NodeId node : {0U, 1U, 2U}) EXPECT_TRUE(machines[node].started(0));
  for (const NodeId node : {0U, 2U}) EXPECT_TRUE(machines[node].prepared(0));
  machines.kill(2);
  EXPECT_TRUE(machines.merges.empty());
  EXPECT_EQ((std::vector<Settled>{{0, false}}), machines[0].view().settled);
  EXPECT_EQ(1, machines[1].view().first_exchange);
}

TEST(Membership, KeepsOneWaitingUntilASeatIsFree) {
  Machines machines(3, Options{.seats = 3});
  machines.join({3, 1});
  machines.pass(2);
  EXPECT_EQ(1, machines[0].view().number);  // nothing changes for one who waits
  EXPECT_EQ(Phase::kJoining, machines[3].phase());
  machines.kill(1);
  machines.pass(1);
  EXPECT_EQ((std::vector<NodeId>{0, 2, 3}), nodes_in(machines[0].view()));
  machines.join({1, 2});  // its seat is taken
  machines.pass(2);
  EXPECT_EQ((std::vector<NodeId>{0, 2, 3}), nodes_in(machines[0].view()));
}

TEST(Membership, SuspectsANodeThatIsSilentForTooLong) {
  Machines machines(3);
  machines.kill(0, /*seen=*/false);
  machines.pass(4);
  EXPECT_EQ(1, machines[1].view().number);
  machines.pass(2);
  EXPECT_EQ((std::vector<NodeId>{1, 2}), nodes_in(machines[1].view()));
}

TEST(Membership, AccusesNobodyAfterItHasSleptItself) {
  Machines machines(3);
  machines.pass(1);
  machines.sleep(60);
  for (const NodeId node : {0U, 1U, 2U}) machines[node].tick(machines.now());
  machines.settle();
  machines.pass(10);
  for (const NodeId node : {0U, 1U, 2U}) EXPECT_EQ(1, machines[node].view().number);
}

TEST(Membership, StopsInAMinority) {
  Machines machines(3);
  machines.cut_off(0);
  machines.pass(12);
  EXPECT_EQ((std::map<NodeId, End::Reason>{{0, End::Reason::kMinority}}), machines.ends);
  EXPECT_EQ((std::vector<NodeId>{1, 2}), nodes_in(machines[1].view()));
}

TEST(Membership, StopsInBothHalvesWithoutATieBreak) {
  Machines machines(4);
  machines.cut_off(0);
  machines.cut_off(1);
  machines.pass(12);
  EXPECT_EQ(4, machines.ends.size());
}

TEST(Membership, GoesOnInOneHalfWithATieBreak) {
  Machines machines(4, /*tie_break=*/true);
  machines.cut_off(0);
  machines.cut_off(1);
  machines.pass(12);
  EXPECT_EQ(2, machines.ends.size());
  const NodeId winner = machines.ends.contains(0) ? 2 : 0;
  EXPECT_EQ((std::vector<NodeId>{winner, winner + 1}), nodes_in(machines[winner].view()));
  EXPECT_EQ(Phase::kActing, machines[winner].phase());
}

TEST(Membership, CommitsByItselfWhenOneMemberIsLeft) {
  Machines machines(2, /*tie_break=*/true);
  machines.kill(0);
  EXPECT_EQ((std::vector<NodeId>{1}), nodes_in(machines[1].view()));
  machines.exchange({1}, machines[1].view().first_exchange);
  EXPECT_EQ(1, machines.merges[1].size());
}

TEST(Membership, GoesOnWithWhoeverIsLeftWhereOneLauncherHasAllNodes) {
  Machines machines(4, Options{.sole = true});
  machines.kill(0);
  machines.kill(1);
  machines.kill(3);
  EXPECT_EQ((std::vector<NodeId>{2}), nodes_in(machines[2].view()));
  machines.exchange({2}, machines[2].view().first_exchange);
  EXPECT_EQ(1, machines.merges[2].size());
}

TEST(Membership, DoesNotTakeTheSilentForDeadWhereOneLauncherHasAllNodes) {
  Machines machines(3, Options{.sole = true});
  machines.cut_off(0);
  machines.pass(12);
  EXPECT_EQ((std::map<NodeId, End::Reason>{{0, End::Reason::kMinority}}), machines.ends);
}

TEST(Membership, BeginsAnewWithTheSameMembers) {
  Machines machines(3);
  for (const NodeId node : {0U, 1U, 2U}) EXPECT_TRUE(machines[node].started(0));
  machines[1].renew(machines.now());
  machines.pass(1);
  for (const NodeId node : {0U, 1U, 2U}) {
    EXPECT_EQ(Phase::kActing, machines[node].phase());
    EXPECT_EQ(2, machines[node].view().number);
    EXPECT_EQ((std::vector<NodeId>{0, 1, 2}), nodes_in(machines[node].view()));
    EXPECT_EQ(1, machines[node].view().first_exchange);
  }
}

TEST(Membership, LetsARestartedNodeInAsSomebodyElse) {
  Machines machines(3);
  machines.kill(1, /*seen=*/false);
  machines.join({1, 2});
  machines.pass(2);  // its successor's word is enough to know that the first is dead
  EXPECT_EQ((std::vector<Member>{{0, 1}, {1, 2}, {2, 1}}), machines[0].view().members);
  EXPECT_EQ(Phase::kActing, machines[1].phase());
  machines.exchange({0, 1, 2}, machines[0].view().first_exchange);
  EXPECT_EQ(1, machines.merges[1].size());
}

TEST(Membership, KeepsJoinersWaitingWhileOneMemberDoesNotAdmit) {
  Machines machines(2);
  machines[1].admit(false);
  machines.join({2, 1});
  machines.pass(3);
  EXPECT_EQ(Phase::kJoining, machines[2].phase());
  EXPECT_EQ(1, machines[0].view().number);
  machines[1].admit(true);
  machines.pass(1);
  EXPECT_EQ(Phase::kActing, machines[2].phase());
  EXPECT_EQ((std::vector<Member>{{2, 1}}), machines[2].view().joined);
}

TEST(Membership, AsksOneMemberForACopyAndEntersWhenItHasIt) {
  Machines machines(3);
  for (const NodeId node : {0U, 1U, 2U}) machines[node].give_copies(true);
  machines.join_with_copy({3, 1}, "there");
  machines.pass(3);
  EXPECT_EQ((std::vector<std::string>{"there"}), machines[0].copies_wanted());
  EXPECT_TRUE(machines[1].copies_wanted().empty());
  EXPECT_EQ(1, machines[0].view().number);  // nobody waits for it
  machines.kill(0);
  machines.pass(1);
  EXPECT_EQ((std::vector<std::string>{"there"}), machines[1].copies_wanted());
  machines[3].ask_copy("elsewhere");
  machines.pass(1);
  EXPECT_EQ((std::vector<std::string>{"elsewhere"}), machines[1].copies_wanted());
  EXPECT_EQ((std::vector<NodeId>{1, 2}), nodes_in(machines[1].view()));
  machines[3].ready();
  machines.pass(1);
  EXPECT_EQ((std::vector<NodeId>{1, 2, 3}), nodes_in(machines[1].view()));
  EXPECT_TRUE(machines[1].copies_wanted().empty());
}

TEST(Membership, EntersWithoutACopyWhereThereIsNone) {
  Machines machines(2);
  machines[1].give_copies(true);  // but it is not the one who is asked
  machines.join_with_copy({2, 1}, "there");
  machines.pass(1);
  EXPECT_EQ(Phase::kActing, machines[2].phase());
}

TEST(Membership, NodeThatIsAloneGivesNoCopy) {
  Machines machines(2, Options{.sole = true});
  machines.kill(1);
  machines[0].give_copies(true);
  machines.join_with_copy({2, 1}, "there");
  machines.pass(1);
  EXPECT_EQ(Phase::kActing, machines[2].phase());
}

TEST(Membership, AsksForNoCopyWhileThereIsNoSeat) {
  Machines machines(3, Options{.seats = 3});
  for (const NodeId node : {0U, 1U, 2U}) machines[node].give_copies(true);
  machines.join_with_copy({3, 1}, "there");
  machines.pass(2);
  EXPECT_TRUE(machines[0].copies_wanted().empty());
  machines.kill(1);
  machines.pass(1);
  EXPECT_EQ((std::vector<std::string>{"there"}), machines[0].copies_wanted());
}

TEST(Membership, LeavesOnPurposeWithNothingInFlight) {
  Machines machines(2);
  for (const NodeId node : {0U, 1U}) EXPECT_TRUE(machines[node].started(0));
  machines[1].leave(machines.now());
  machines.pass(1);
  EXPECT_EQ(1, machines[0].view().number);
  for (const NodeId node : {0U, 1U}) EXPECT_TRUE(machines[node].prepared(0));
  machines.pass(1);
  EXPECT_EQ((std::map<NodeId, End::Reason>{{1, End::Reason::kLeft}}), machines.ends);
  EXPECT_EQ((std::vector<NodeId>{0}), nodes_in(machines[0].view()));
  EXPECT_EQ((std::vector<ExchangeNumber>{0}), machines.merges[0]);
  EXPECT_EQ((std::vector<ExchangeNumber>{0}), machines.merges[1]);
}

TEST(Membership, EndsForAllWhenAllLeave) {
  Machines machines(3);
  for (const NodeId node : {0U, 1U, 2U}) machines[node].leave(machines.now());
  machines.pass(6);
  EXPECT_EQ(3, machines.ends.size());
  for (const auto& [node, reason] : machines.ends) EXPECT_EQ(End::Reason::kLeft, reason);
}

TEST(Membership, TellsAnExcludedNodeThatItIs) {
  Machines machines(3);
  machines[0].died({2, 1}, machines.now());
  machines.settle();
  EXPECT_EQ((std::map<NodeId, End::Reason>{{2, End::Reason::kExcluded}}), machines.ends);
}

}  // namespace
}  // namespace daso::membership
