// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "daso/membership/message.h"

// Single-decree Paxos (Lamport, "Paxos made simple", 2001): one value for one view number.
// Acceptors are the launchers of the view before; each of them may propose as well.
namespace daso::membership {

// What one launcher has promised and accepted for the next view. It lives as long as the launcher
// and is not written anywhere: who has lost it comes back as another member, who is asked nothing
// about this view.
class Acceptor {
 public:
  // False: a higher ballot has been promised.
  bool promise(const Ballot& ballot);
  bool accept(const Ballot& ballot, const View& view);

  const Ballot& promised() const { return promised_; }
  const std::optional<AcceptedView>& accepted() const { return accepted_; }

 private:
  Ballot promised_;
  std::optional<AcceptedView> accepted_;
};

// One launcher's ballot for the next view.
class Proposer {
 public:
  enum class Stage { kIdle, kGathering, kAccepting };

  void begin(const Ballot& ballot);
  void stop() { stage_ = Stage::kIdle; }
  Stage stage() const { return stage_; }
  const Ballot& ballot() const { return ballot_; }

  // Answers to other ballots do not count.
  void promised(const Member& from, const Promise& promise);
  void accepted(const Member& from, const Ballot& ballot);

  // Those who have answered in this stage, ascending.
  const std::vector<Member>& voters() const { return voters_; }
  bool answered(const Member& member) const { return contains(voters_, member); }
  const std::vector<ReportOf>& reports() const { return reports_; }
  // The value that a promise binds us to: it may be decided already.
  const std::optional<AcceptedView>& bound() const { return bound_; }

  // Phase 2, once those who promised may decide. To be called once in a ballot.
  void propose(View view);
  const View& view() const { return view_; }

 private:
  Stage stage_ = Stage::kIdle;
  Ballot ballot_;
  std::vector<Member> voters_;
  std::vector<ReportOf> reports_;
  std::optional<AcceptedView> bound_;
  View view_;
};

}  // namespace daso::membership
