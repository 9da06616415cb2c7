// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "daso/membership/view.h"

// What members tell each other about their exchanges, and how the next view follows from it.
namespace daso::membership {

// More exchanges of one node than this are never in flight at the same time.
inline constexpr ExchangeNumber kMostInFlight = 64;

// How far a node's exchanges are within a view. All numbers from the view's first one to `next` - 1
// were started; those before `committed` are committed here.
struct Progress {
  ExchangeNumber next = 0;       // the number that is started next
  ExchangeNumber committed = 0;  // the first one that is not committed here
  std::vector<ExchangeNumber>
      held;  // prepared from `committed` on, ascending: the whole answer is here

  bool holds(ExchangeNumber exchange) const;
  bool in_flight() const { return committed < next; }
  bool operator==(const Progress&) const = default;
};

// What a member says once when its view ends. From then on its votes in that view are frozen, so
// that it stays true: an exchange it does not hold is never committed by anybody.
struct Report {
  Progress progress;
  std::optional<std::int64_t> step;  // the last step finished, in a blocking phase
  bool leaving = false;              // on purpose
  std::vector<Member> candidates;    // joiners that are ready and that this member hears
  std::vector<Member> dead;          // members that are certainly dead, as far as this member knows
  bool operator==(const Report&) const = default;
};

struct ReportOf {
  Member member;
  Report report;
};

// The view that follows `before`, from reports of its members. Who is dead according to another
// does not count, since it has died after its report, or the two have lost each other and one of
// them must go: else the other would ask for the next change at once. Words are taken in the order
// of the reports, the proposer's first, and those of the dead are void.
//   members   those who reported and do not leave, and candidates that all of them hear, fewer than
//             those who stay, since joiners may be gone as fast as they came, and as long as there
//             are seats
//   K         the highest number started + 1
//   settled   committed is what all who reported hold, a lost node's part included; the rest is
//             abandoned. Who leaves is asked too: it has nothing in flight, so it costs nothing.
// None: the reports cannot be of one view, since survivors differ by the exchanges in flight at
// most.
std::optional<View> next_view(const View& before, std::span<const ReportOf> reports,
                              std::size_t seats);

}  // namespace daso::membership
