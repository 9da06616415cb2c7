// SPDX-License-Identifier: Apache-2.0
#include "daso/membership/membership.h"

#include <algorithm>
#include <utility>

#include "daso/base/error.h"

namespace daso::membership {

Membership::Membership(const Options& options, const Member& self, const View& first, Seconds now)
    : options_(options), self_(self), last_tick_(now), random_{self.node, self.incarnation} {
  require(contains(first.members, self), "{} is not in {}", text(self), text(first));
  enter(first, now);
}

Membership::Membership(const Options& options, const Member& self, std::vector<NodeId> contacts,
                       Seconds now)
    : options_(options),
      self_(self),
      last_tick_(now),
      next_pulse_(now),
      random_{self.node, self.incarnation},
      contacts_(std::move(contacts)) {}

std::vector<Action> Membership::take_actions() { return std::exchange(actions_, {}); }

void Membership::tick(Seconds now) {
  if (phase_ == Phase::kEnded) return;
  notice_sleep(now);
  last_tick_ = now;
  if (phase_ == Phase::kJoining) return tick_as_joiner(now);
  if (phase_ == Phase::kLingering) return linger(now);
  watch_.look(now, options_.silence);
  std::erase_if(candidates_,
                [&](const Candidate& one) { return now - one.heard > options_.silence; });
  watch_majority(now);
  if (phase_ == Phase::kEnded) return;
  if (now >= next_pulse_) {
    send_pulses();
    next_pulse_ = now + options_.period;
  }
  change_if_due(now);
}

// Between two ticks lies a period. After more than two of them we have slept ourselves: whatever
// limit is over for others, they may have kept it.
void Membership::notice_sleep(Seconds now) {
  if (now - last_tick_ <= 2 * options_.period) return;
  last_tick_ = now;
  watch_.forgive(now);
  gather_until_ = now + options_.report;
  if (alone_since_) alone_since_ = now;
}

void Membership::receive(const Message& message, Seconds now) {
  if (phase_ == Phase::kEnded || message.from == self_) return;
  notice_sleep(now);
  if (phase_ == Phase::kJoining) return receive_as_joiner(message, now);
  if (contains(view_.members, message.from)) watch_.heard(message.from.node, now);
  std::visit([&](const auto& body) { on(message.from, message.view, body, now); }, message.body);
}

void Membership::died(const Member& member, Seconds now) {
  if (phase_ != Phase::kActing && phase_ != Phase::kChanging) return;
  if (!contains(view_.members, member)) return;
  notice_sleep(now);
  watch_.died(member.node);
  change_if_due(now);
}

void Membership::renew(Seconds now) {
  if (phase_ != Phase::kActing) return;
  notice_sleep(now);
  renewing_ = true;
  change_if_due(now);
}

bool Membership::started(ExchangeNumber exchange) {
  const bool in_view = phase_ == Phase::kActing || phase_ == Phase::kChanging;
  return in_view && votes_.started(exchange);
}

bool Membership::prepared(ExchangeNumber exchange) {
  const bool in_view = phase_ == Phase::kActing || phase_ == Phase::kChanging;
  if (!in_view || !votes_.prepared(exchange)) return false;
  commit();
  send_pulses();
  return true;
}

void Membership::frozen(ViewNumber view, std::optional<std::int64_t> step, Seconds now) {
  if (phase_ != Phase::kChanging || view != view_.number || report_) return;
  notice_sleep(now);
  votes_.freeze();
  report_ = {.progress = votes_.progress(),
             .step = step,
             .leaving = leaving_,
             .candidates = ready_candidates(),
             .dead = watch_.dead()};
  if (acceptor_.promised() != Ballot{}) send_promise(now);
}

void Membership::send(NodeId to, ViewNumber view, Body body) {
  actions_.emplace_back(Send{to, {self_, view, std::move(body)}});
}

Pulse Membership::pulse() const {
  return {.progress = votes_.progress(),
          .leaving = leaves_now(),
          .candidates = ready_candidates()};
}

void Membership::send_pulses() {
  const Pulse own = pulse();
  for (const Member& member : view_.members) {
    if (member != self_) send(member.node, view_.number, own);
  }
}

void Membership::on(const Member& from, ViewNumber view, const Pulse& pulse, Seconds now) {
  if (phase_ == Phase::kLingering) {
    if (view >= view_.number) informed_.push_back(from.node);
    return;
  }
  if (view < view_.number) return send_view(from.node);
  // The only one left who knows the next view may be a joiner, to whom we would not speak. It tells
  // us when it sees that we are behind.
  if (view > view_.number) return send(from.node, view_.number, this->pulse());
  if (!contains(view_.members, from)) return;
  votes_.heard(from.node, pulse.progress);
  const auto peer = std::ranges::find(peers_, from.node, &Peer::node);
  peer->leaving = peer->leaving || pulse.leaving;
  peer->candidates = pulse.candidates;
  commit();
  if (peer->leaving) change_if_due(now);
}

// After Freeze the ranks are not told of commits one by one: what counts comes with the next view.
void Membership::commit() {
  if (phase_ != Phase::kActing) return;
  for (const ExchangeNumber exchange : votes_.take_commits()) {
    actions_.emplace_back(Merge{view_.number, exchange});
  }
}

void Membership::on(const Member& from, ViewNumber /*view*/, const Decided& decided, Seconds now) {
  if (phase_ == Phase::kLingering) {
    if (decided.view.number >= view_.number) informed_.push_back(from.node);
    return;
  }
  const bool known = decided.view.number <= view_.number;
  learn(decided.view, now);
  // Who is no member asks in this way whether we know.
  if (known && !contains(view_.members, from)) send(from.node, view_.number, pulse());
}

void Membership::learn(const View& view, Seconds now) {
  if (view.number <= view_.number) return;
  const bool member = contains(view.members, self_);
  if (phase_ == Phase::kJoining) {
    if (member) return enter(view, now);
    const Member* const other = member_of(view.members, self_.node);
    view_ = view;
    if (other != nullptr && other->incarnation > self_.incarnation) end(End::Reason::kExcluded);
    return;
  }
  // Who is in the next view has reported for it, in this one.
  const bool ours = report_ && view.number == view_.number + 1;
  const bool settled = ours && (member || leaving_) && settle(view);
  if (leaving_ && !member) {
    contacts_.clear();
    for (const Member& other : view.members.empty() ? view_.members : view.members) {
      if (other != self_ && !watch_.dead(other.node)) contacts_.push_back(other.node);
    }
    view_ = view;
    phase_ = Phase::kLingering;
    linger_until_ = now + options_.silence;
    next_pulse_ = now;
    return linger(now);
  }
  if (!member || !settled) return end(End::Reason::kExcluded);
  enter(view, now);
}

// Carries out what the next view says of this one's exchanges. False: it is not made for us.
bool Membership::settle(const View& next) {
  const Progress& own = votes_.progress();
  ExchangeNumber expected = own.committed;
  for (const Settled& one : next.settled) {
    if (one.exchange < expected) continue;
    if (one.exchange > expected || (one.committed && !own.holds(one.exchange))) return false;
    ++expected;
    if (one.committed) {
      actions_.emplace_back(Merge{view_.number, one.exchange});
    } else if (one.exchange < own.next) {
      actions_.emplace_back(Abandon{view_.number, one.exchange});
    }
  }
  return expected == next.first_exchange;
}

void Membership::enter(const View& view, Seconds now) {
  Watch watch(view, self_, now);
  for (const Member& member : view.members) {
    if (contains(view_.members, member) && watch_.dead(member.node)) watch.died(member.node);
  }
  watch_ = std::move(watch);
  view_ = view;
  votes_ = Votes(view, self_);
  peers_.clear();
  for (const Member& member : view.members) {
    if (member != self_) peers_.push_back({.node = member.node});
    std::erase_if(candidates_, [&](const Candidate& one) {
      return one.member.node == member.node && one.member.incarnation <= member.incarnation;
    });
  }
  acceptor_ = {};
  proposer_ = {};
  report_.reset();
  granted_.reset();
  highest_round_ = 0;
  asked_by_dead_ = false;
  failed_ballots_ = 0;
  next_ballot_.reset();
  renewing_ = false;
  next_claim_ = now;
  alone_since_.reset();
  next_pulse_ = now;
  phase_ = Phase::kActing;
  actions_.emplace_back(Enter{view_});
}

void Membership::end(End::Reason reason) {
  phase_ = Phase::kEnded;
  actions_.emplace_back(End{reason});
}

}  // namespace daso::membership
