// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daso/base/random.h"
#include "daso/base/seconds.h"
#include "daso/membership/paxos.h"
#include "daso/membership/votes.h"
#include "daso/membership/watch.h"

namespace daso::membership {

struct Options {
  Seconds period{0.1};  // from pulse to pulse; tick() is called at least as often
  Seconds silence{5};   // a member that is not heard for longer is suspected
  Seconds report{2};    // how long a change of view waits for a member that lives but says nothing
  Seconds retry{1};     // from a ballot that failed to the next, up to four times that later
  Seconds give_up{5};   // a node that has been without majority for longer stops
  std::size_t seats = kMostMembers;  // no view has more members: who is beyond waits for a seat
  bool tie_break = false;            // a witness or an exclusive file answers claims
  bool sole = false;  // one launcher has all nodes and sees all deaths: whoever is left decides
};

// What the launcher is asked to do, in this order.
struct Send {
  NodeId to = 0;
  Message message;
};
// The view ends: close its connections and keep the ranks from starting exchanges or steps. Then,
// once all they have started and prepared was told, call frozen().
struct Freeze {
  ViewNumber view = 0;
};
// An exchange is committed: the ranks merge it, or will when it is due.
struct Merge {
  ViewNumber view = 0;  // that it was started in
  ExchangeNumber exchange = 0;
};
// An exchange that was started here is as if it had not been.
struct Abandon {
  ViewNumber view = 0;
  ExchangeNumber exchange = 0;
};
// Connect the members; the next exchange is view.first_exchange. A joiner that has not everything
// yet catches up before it prepares that one.
struct Enter {
  View view;
};
// Ask witness or file for this half, and call claimed() with the one that was first for this view
// number, ours or another. It is asked again while there is no answer.
struct Claim {
  ViewNumber view = 0;
  std::vector<Member> half;
};
// The last thing that a Membership says.
struct End {
  enum class Reason {
    kLeft,      // on purpose: exit code 75
    kExcluded,  // the others went on without us: come back as a joiner, with a new incarnation
    kMinority   // no majority is in reach: save what is here, publish nothing, exit code 3
  };
  Reason reason = Reason::kLeft;
};
using Action = std::variant<Send, Freeze, Merge, Abandon, Enter, Claim, End>;

// One launcher's part in the decisions about views and exchanges. Give it what happens, do what
// take_actions() says. Times are seconds since any moment, of a clock that never goes back. Not for
// several threads at once. Throws only for misuse, never for what others say.
//
//   joining --Enter--> acting --Freeze--> changing --Enter--> acting ...
//                                         changing ---------> lingering (left) --> ended
//
// After a restart. Nothing is written to disk. A launcher that died has forgotten its promises and
// what it accepted; if it answered as the same acceptor, two values could be decided for one view
// number. So it must come back with a higher incarnation, by the joiner's constructor. As such it
// is no member of the view that its predecessor was in: it decides nothing until a view has been
// decided, by others, that contains it. Its predecessor stays in the count of that view, as one who
// says nothing more. If more than half of a view's launchers die before the next is decided there
// will be no next one: the run stops, and goes on from a checkpoint. The price for not waiting for
// disks in every change of view.
class Membership {
 public:
  // A member of the first view; all its members give the same.
  Membership(const Options& options, const Member& self, const View& first, Seconds now);
  // A joiner; contacts are nodes that may be members.
  Membership(const Options& options, const Member& self, std::vector<NodeId> contacts, Seconds now);

  void tick(Seconds now);
  void receive(const Message& message, Seconds now);
  // This life of a launcher is certainly over.
  void died(const Member& member, Seconds now);
  // The view is to begin anew with the members that it has: their connections are not what they
  // should be, though none of them is known to be lost.
  void renew(Seconds now);
  void claimed(ViewNumber view, const std::vector<Member>& half, Seconds now);

  // From the own ranks. False: it came too late and does not count.
  bool started(ExchangeNumber exchange);
  bool prepared(ExchangeNumber exchange);
  // The answer to Freeze; step: the last one finished, in a blocking phase.
  void frozen(ViewNumber view, std::optional<std::int64_t> step, Seconds now);

  // Leaves on purpose: start nothing more; what is in flight will be settled first.
  void leave(Seconds now);
  // The own ranks are gone: leaves at once, with what they have prepared. The launcher lives, so
  // its word still counts in the decision.
  void fail(Seconds now);
  // Joiner: has caught up.
  void ready() { ready_ = true; }
  // Joiner: asks a member for a copy of the run, at a place that members can make something of,
  // instead of one before. If there is none to be had it is ready as it is.
  void ask_copy(std::string copy_to) { copy_to_ = std::move(copy_to); }
  // Member: whether it has anything to copy. Of others it says so to those who ask.
  void give_copies(bool gives) { gives_copies_ = gives; }
  // Member: where joiners wait for a copy of this one.
  std::vector<std::string> copies_wanted() const;
  // Member: whether joiners may enter now; blocking phases say no until their epoch ends.
  void admit(bool admitting) { admitting_ = admitting; }
  void set_silence(Seconds silence) { options_.silence = silence; }

  std::vector<Action> take_actions();

  enum class Phase { kJoining, kActing, kChanging, kLingering, kEnded };
  Phase phase() const { return phase_; }
  bool leaving() const { return leaving_; }  // or has left
  const Member& self() const { return self_; }
  const View& view() const { return view_; }  // the last one we know; a joiner is no member of it
  const Progress& progress() const { return votes_.progress(); }
  // A joiner that hears the members, who have no seat for it.
  bool waits_for_seat() const {
    return phase_ == Phase::kJoining && !heard_.empty() && view_.members.size() >= options_.seats;
  }
  // Since when too few members are in reach; none: there are enough.
  std::optional<Seconds> alone_since() const { return alone_since_; }

 private:
  struct Peer {  // what its last pulse said
    NodeId node = 0;
    bool leaving = false;
    std::vector<Member> candidates;
  };
  struct Candidate {
    Member member;
    bool ready = false;
    std::string copy_to;
    Seconds heard{0};
  };

  // membership.cpp: pulses, votes, views
  void notice_sleep(Seconds now);
  void on(const Member& from, ViewNumber view, const Pulse& pulse, Seconds now);
  void on(const Member& from, ViewNumber view, const Join& join, Seconds now);
  void on(const Member& from, ViewNumber view, const Decided& decided, Seconds now);
  void on(const Member& /*from*/, ViewNumber /*view*/, const NoCopy&, Seconds /*now*/) {}
  void send(NodeId to, ViewNumber view, Body body);
  void send_view(NodeId to) { send(to, view_.number, Decided{view_}); }
  void send_pulses();
  Pulse pulse() const;
  void commit();
  std::vector<Member> ready_candidates() const;
  bool has_seat_for(const Member& candidate) const;
  void learn(const View& view, Seconds now);
  bool settle(const View& next);
  void enter(const View& view, Seconds now);
  void end(End::Reason reason);

  // changing.cpp: from a reason to change the view to its decision
  void on(const Member& from, ViewNumber view, const Prepare& prepare, Seconds now);
  void on(const Member& from, ViewNumber view, const Promise& promise, Seconds now);
  void on(const Member& from, ViewNumber view, const Reject& reject, Seconds now);
  void on(const Member& from, ViewNumber view, const Accept& accept, Seconds now);
  void on(const Member& from, ViewNumber view, const Accepted& accepted, Seconds now);
  bool is_for_next_view(const Member& from, ViewNumber view) const;
  bool has_reason_to_change() const;
  bool leaves_now() const { return leaving_ && (failed_ || !votes_.progress().in_flight()); }
  bool may_decide(std::span<const Member> voters) const;
  void begin_change();
  void change_if_due(Seconds now);
  void begin_ballot(Seconds now);
  void send_ballot();
  void send_promise(Seconds now);
  void postpone_ballot(Seconds now);
  void propose_if_enough(Seconds now);
  bool all_answered() const;
  void claim_half(Seconds now);
  void decide_if_enough(Seconds now);
  void watch_majority(Seconds now);
  Seconds turn() const;

  // joining.cpp: coming and going
  void receive_as_joiner(const Message& message, Seconds now);
  void tick_as_joiner(Seconds now);
  std::optional<NodeId> donor() const;
  void linger(Seconds now);

  Options options_;
  Member self_;
  Phase phase_ = Phase::kJoining;
  View view_;
  Seconds last_tick_{0};
  Seconds next_pulse_{0};
  RandomStream random_;
  std::vector<Action> actions_;

  // of the current view
  Votes votes_;
  Watch watch_;
  std::vector<Peer> peers_;
  bool leaving_ = false;
  bool failed_ = false;  // leaves without its ranks
  bool renewing_ = false;
  bool admitting_ = true;
  bool gives_copies_ = false;
  std::vector<Candidate> candidates_;
  std::optional<Seconds> alone_since_;

  // of the decision about the next
  Acceptor acceptor_;
  Proposer proposer_;
  std::optional<Report> report_;
  std::optional<std::vector<Member>> granted_;  // the half that the tie-break named
  std::uint64_t highest_round_ = 0;
  bool asked_by_dead_ = false;  // the promised ballot came from one that we held for dead
  int failed_ballots_ = 0;
  std::optional<Seconds> next_ballot_;
  Seconds gather_until_{0};
  Seconds next_send_{0};
  Seconds next_claim_{0};

  // of a joiner, or of one who has left
  bool ready_ = false;
  std::string copy_to_;  // where it waits for a copy
  std::vector<NodeId> contacts_;
  struct Heard {
    NodeId node = 0;
    Seconds when{0};
  };
  std::vector<Heard> heard_;
  std::vector<NodeId> informed_;  // who knows the view without us
  Seconds linger_until_{0};
};

}  // namespace daso::membership
