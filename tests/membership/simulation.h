// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daso/membership/membership.h"
#include "membership/history.h"
#include "membership/simulated_network.h"

namespace daso::membership {

// Launchers with their ranks, a network and a clock, none of them real. Ranks exchange as fast as
// they are allowed to; faults happen as the script says; then there is quiet, and all that live and
// are not in a minority must be going on together.
class Simulation {
 public:
  // Tells what happens as lines of text, if wanted.
  explicit Simulation(const Script& script, bool tell = false);

  // What went wrong; none: nothing.
  std::optional<std::string> run();

  // What happened, to see that the runs are worth something.
  std::size_t views() const { return history_.views().size(); }
  std::size_t commits() const { return history_.size(); }
  std::size_t events() const { return events_done_; }
  bool demanded_progress() const { return demanded_; }

 private:
  struct Node {
    std::optional<Membership> machine;  // none: the process is gone
    std::uint64_t life = 0;
    double paused_until = 0;
    std::size_t anchor = 0;
    ExchangeNumber highest_started = -1;
    ViewNumber frozen = 0;  // the last view that the ranks have left
    std::int64_t frozen_step = 0;
    bool leaving = false;
    bool ranks_gone = false;
    std::optional<Fault> doom;  // kCrashAt
  };
  struct Event {
    enum class Kind : std::uint8_t {
      kMessage,
      kTick,
      kTrain,
      kAnswer,
      kFrozen,
      kClaimed,
      kDied,
      kReady,
      kRestart,
      kLeave,
      kRenew,
      kFault,
      kFaultEnds
    };
    double time = 0;
    std::uint32_t order = 0;
    Kind kind = Kind::kTick;
    std::uint8_t node = 0;
    std::uint32_t life = 0;
    ViewNumber view = 0;      // kAnswer, kFrozen, kClaimed; kDied: the dead one's incarnation
    std::int64_t number = 0;  // exchange, message, fault, dead node
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };

  // simulation.cpp: events
  void schedule(double delay, Event::Kind kind, unsigned node, ViewNumber view = 0,
                std::int64_t number = 0);
  void push(Event event);
  void happen(const Event& event);
  void happen_to(Node& node, const Event& event);
  void begin_fault(const Fault& fault);
  void crash(unsigned which, bool seen);
  void come_back(unsigned which);

  // simulated_ranks.cpp: what launchers are told to do, and what their ranks do
  void perform(unsigned which);
  bool is_doomed(Node& node, const Action& action) const;
  void carry_out(unsigned which, Send send);
  void carry_out(unsigned which, const Freeze& freeze);
  void carry_out(unsigned which, const Merge& merge);
  void carry_out(unsigned which, const Abandon& abandon);
  void carry_out(unsigned which, const Enter& enter);
  void carry_out(unsigned which, const Claim& claim);
  void carry_out(unsigned which, const End& end);
  void train(unsigned which);
  void answer(unsigned which, ViewNumber view, ExchangeNumber exchange);

  // simulated_quiet.cpp: what must be so when faults are over
  bool progress_is_due() const;
  void check_end(std::size_t commits_before) const;

  void tell(unsigned which, const std::string& what) const;

  Script script_;
  bool tell_;
  SimulatedNetwork network_;
  History history_;
  std::vector<Node> nodes_;
  std::vector<Event> queue_;  // a heap
  std::vector<Message> messages_;
  std::vector<std::size_t> free_messages_;
  std::map<ViewNumber, std::vector<Member>> tie_break_;  // the half that was first
  int witness_away_ = 0;
  std::map<ViewNumber, std::vector<View>> proposed_;
  std::vector<Member> left_;
  std::vector<std::vector<unsigned>> started_;  // by view and exchange: a set of nodes
  double now_ = 0;
  std::uint32_t order_ = 0;
  std::size_t events_done_ = 0;
  bool demanded_ = false;
};

}  // namespace daso::membership
