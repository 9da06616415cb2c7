// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "daso/membership/membership.h"

// From a reason to change the view to the decision about the next. Every member may propose; they
// begin one after the other, so that mostly the first is alone.
namespace daso::membership {

bool Membership::has_reason_to_change() const {
  if (phase_ == Phase::kChanging || renewing_ || watch_.any_lost()) return true;
  if (leaves_now()) return true;
  if (std::ranges::any_of(peers_, &Peer::leaving)) return true;
  // A joiner enters when all hear it: else the change would be for nothing, again and again.
  return std::ranges::any_of(ready_candidates(), [&](const Member& candidate) {
    return has_seat_for(candidate) && std::ranges::all_of(peers_, [&](const Peer& peer) {
             return contains(peer.candidates, candidate);
           });
  });
}

// A launcher that has all nodes knows of the dead that they are: they decide nothing elsewhere.
bool Membership::may_decide(std::span<const Member> voters) const {
  if (decides(view_.members, voters, granted_)) return true;
  return options_.sole && std::ranges::all_of(view_.members, [&](const Member& member) {
           return contains(voters, member) || watch_.dead(member.node);
         });
}

// How long this member leaves it to those before it to begin.
Seconds Membership::turn() const {
  const std::vector<Member> reachable = watch_.reachable();
  return static_cast<double>(std::ranges::find(reachable, self_) - reachable.begin()) *
         options_.period;
}

void Membership::change_if_due(Seconds now) {
  if (phase_ != Phase::kActing && phase_ != Phase::kChanging) return;
  if (!has_reason_to_change()) return next_ballot_.reset();
  if (proposer_.stage() != Proposer::Stage::kIdle) {
    propose_if_enough(now);
    decide_if_enough(now);
    if (now >= next_send_) {
      next_send_ = now + options_.period;
      send_ballot();
    }
    return;
  }
  // Nobody waits for a proposer that is gone. One that we held for dead already when it asked is
  // not: two that have lost each other must take turns, too.
  const bool gone = watch_.lost(acceptor_.promised().node) && !asked_by_dead_;
  if (!next_ballot_ || gone) {
    next_ballot_ = std::min(next_ballot_.value_or(now + turn()), now + turn());
  }
  if (now >= *next_ballot_) begin_ballot(now);
}

void Membership::begin_change() {
  if (phase_ != Phase::kActing) return;
  phase_ = Phase::kChanging;
  actions_.emplace_back(Freeze{view_.number});
}

void Membership::begin_ballot(Seconds now) {
  proposer_.begin({++highest_round_, self_.node});
  acceptor_.promise(proposer_.ballot());
  gather_until_ = now + options_.report;
  next_send_ = now + options_.period;
  send_ballot();
  begin_change();
  if (report_) send_promise(now);
}

// What is asked in this stage, to all who have not answered.
void Membership::send_ballot() {
  for (const Member& member : view_.members) {
    if (member == self_ || proposer_.answered(member)) continue;
    if (proposer_.stage() == Proposer::Stage::kGathering) {
      send(member.node, view_.number + 1, Prepare{proposer_.ballot()});
    } else if (proposer_.stage() == Proposer::Stage::kAccepting) {
      send(member.node, view_.number + 1, Accept{proposer_.ballot(), proposer_.view()});
    }
  }
}

void Membership::postpone_ballot(Seconds now) {
  proposer_.stop();
  const double patience = std::exp2(std::min(failed_ballots_++, 2)) * (1 + random_.fraction());
  next_ballot_ = now + patience * options_.retry;
}

void Membership::on(const Member& from, ViewNumber view, const Prepare& prepare, Seconds now) {
  if (view <= view_.number) return send_view(from.node);
  if (!is_for_next_view(from, view)) return;
  highest_round_ = std::max(highest_round_, prepare.ballot.round);
  const bool again = prepare.ballot == acceptor_.promised();
  if (!acceptor_.promise(prepare.ballot)) {
    return send(from.node, view, Reject{prepare.ballot, acceptor_.promised()});
  }
  if (!again) {
    asked_by_dead_ = watch_.dead(from.node);
    postpone_ballot(now);
  }
  begin_change();
  if (report_) send_promise(now);
}

// The report is part of the promise: a launcher promises nothing before its ranks have stopped.
void Membership::send_promise(Seconds now) {
  Promise promise{acceptor_.promised(), *report_, acceptor_.accepted()};
  const NodeId proposer = promise.ballot.node;
  if (proposer != self_.node) return send(proposer, view_.number + 1, std::move(promise));
  proposer_.promised(self_, promise);
  propose_if_enough(now);
}

bool Membership::is_for_next_view(const Member& from, ViewNumber view) const {
  return view == view_.number + 1 && contains(view_.members, from) &&
         (phase_ == Phase::kActing || phase_ == Phase::kChanging);
}

void Membership::on(const Member& from, ViewNumber view, const Promise& promise, Seconds now) {
  if (!is_for_next_view(from, view)) return;
  proposer_.promised(from, promise);
  propose_if_enough(now);
}

void Membership::on(const Member& from, ViewNumber view, const Reject& reject, Seconds now) {
  if (!is_for_next_view(from, view)) return;
  highest_round_ = std::max(highest_round_, reject.promised.round);
  const bool ours = proposer_.stage() != Proposer::Stage::kIdle;
  if (ours && reject.ballot == proposer_.ballot()) postpone_ballot(now);
}

void Membership::propose_if_enough(Seconds now) {
  if (proposer_.stage() != Proposer::Stage::kGathering) return;
  if (!may_decide(proposer_.voters())) return claim_half(now);
  if (!report_) return;
  std::optional<View> next;
  if (proposer_.bound()) {
    next = proposer_.bound()->view;
  } else if (now >= gather_until_ || all_answered()) {
    // Our own word first, with what we have learned since.
    std::vector<ReportOf> reports{{self_, *report_}};
    reports.front().report.dead = watch_.dead();
    for (const ReportOf& one : proposer_.reports()) {
      if (one.member != self_) reports.push_back(one);
    }
    next = next_view(view_, reports, options_.seats);
  }
  if (!next) return;
  proposer_.propose(*std::move(next));
  acceptor_.accept(proposer_.ballot(), proposer_.view());
  proposer_.accepted(self_, proposer_.ballot());
  send_ballot();
  decide_if_enough(now);
}

// An exact half may decide if the tie-break names it first. Until all who can be reached are in it
// there may be a majority yet.
void Membership::claim_half(Seconds now) {
  const bool half = 2 * proposer_.voters().size() == view_.members.size();
  if (!options_.tie_break || !half || granted_ || now < next_claim_ || !all_answered()) return;
  next_claim_ = now + options_.retry;
  actions_.emplace_back(Claim{view_.number + 1, proposer_.voters()});
}

bool Membership::all_answered() const {
  return std::ranges::all_of(watch_.reachable(),
                             [&](const Member& member) { return proposer_.answered(member); });
}

void Membership::claimed(ViewNumber view, const std::vector<Member>& half, Seconds now) {
  if (phase_ != Phase::kChanging || view != view_.number + 1) return;
  notice_sleep(now);
  granted_ = half;
  propose_if_enough(now);
  decide_if_enough(now);
}

void Membership::on(const Member& from, ViewNumber view, const Accept& accept, Seconds now) {
  if (view <= view_.number) return send_view(from.node);
  if (!is_for_next_view(from, view) || accept.view.number != view) return;
  highest_round_ = std::max(highest_round_, accept.ballot.round);
  const bool again = accept.ballot == acceptor_.promised();
  if (!acceptor_.accept(accept.ballot, accept.view)) {
    return send(from.node, view, Reject{accept.ballot, acceptor_.promised()});
  }
  if (!again) postpone_ballot(now);
  begin_change();
  send(from.node, view, Accepted{accept.ballot});
}

void Membership::on(const Member& from, ViewNumber view, const Accepted& accepted, Seconds now) {
  if (!is_for_next_view(from, view)) return;
  proposer_.accepted(from, accepted.ballot);
  decide_if_enough(now);
}

void Membership::decide_if_enough(Seconds now) {
  if (proposer_.stage() != Proposer::Stage::kAccepting) return;
  if (!may_decide(proposer_.voters())) return claim_half(now);
  const View next = proposer_.view();
  std::vector<Member> audience = view_.members;
  for (const Member& member : next.joined) insert(audience, member);
  for (const Member& member : audience) {
    if (member != self_) send(member.node, next.number, Decided{next});
  }
  learn(next, now);
}

void Membership::watch_majority(Seconds now) {
  if (may_decide(watch_.reachable())) return alone_since_.reset();
  if (!alone_since_) alone_since_ = now;
  if (now - *alone_since_ > options_.give_up) end(End::Reason::kMinority);
}

}  // namespace daso::membership
