// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daso/comm/world.h"
#include "daso/record/membership.h"
#include "daso/run/run.h"

// How a run goes on in the next view (comm/worlds.h). Nodes that were there before go on where they
// were; the others, and those that fell behind where all are equal, take what a donor has.
namespace daso {

// What the ranks of a view find out about each other before they go on.
struct Takeover {
  bool any = false;   // somebody has the run: it does not begin here
  bool lost = false;  // the run has begun, but all who had it are gone
  int donor = 0;      // who has sent a copy ahead, or else the first of those that are furthest
  RunPlace furthest;  // where that is: nobody has passed it
  bool donor_equal = false;  // what it has is what all have to have, and not its node's alone
  bool needy = false;        // this rank takes what the donor has
  bool any_needy = false;
  bool needy_home = false;  // all ranks of this node do
  std::vector<int> takers;  // those who get it from the donor: one of each node that needs it, and
                            // every other rank that does
  struct Copied {           // the same, where most of it is there (copies.h)
    int taker = 0;
    std::string place;          // where the copy was sent to
    std::int64_t exchange = 0;  // that it was made at, as launchers count
  };
  std::vector<Copied> copied;
  std::int64_t exchanges_before = 0;               // the job, see Run
  Deal deal;                                       // of the epoch under way; empty: it begins here
  std::vector<std::optional<LeftAt>> places;       // where each node was
  std::optional<Clock::time_point> stalled_since;  // the last step of who has waited longest
  std::vector<DecidedView> decided;                // by launchers so far
  std::vector<ViewRecord> views;  // that were entered before, as far as they are known
};

// All ranks call it together. In a world for good it says that nobody has anything.
Takeover takeover_in(World& world, const Run& run);

// The view that a course begins in, for the record; its place is this rank's.
ViewRecord record_of(const World& world, const Takeover& takeover, const RunPlace& place);

// In a replay: this view ends here for this node, or it should have before.
bool has_come_to(const RunPlace& place, const ViewEnd& end);

// The state that one rank has, on all of these; what the others pass does not count. It travels as
// bytes, whatever the types, and may take longer than the limit if it is large.
State spread(Communicator& ranks, int from, const State& own, Seconds limit);
// What the donor gives, on the ranks that need it; `own` is the donor's. All ranks call it
// together, and go on when all have it. JoinerCopies that were sent ahead are used up.
RunState give(World& world, const Takeover& takeover, Run& run, const RunState& own);

}  // namespace daso
