// SPDX-License-Identifier: Apache-2.0
#include "daso/run/views/deal.h"

#include <algorithm>
#include <vector>

#include "daso/run/views/takeover.h"

namespace daso {
namespace {

// The seat of this rank, or one whose rank is gone: that of the first, of those that are free, for
// the first that has none.
int seat_of(const World& world, const Deal& deal) {
  const auto place_in = [](const std::vector<int>& ids, int id) {
    return std::find(ids.begin(), ids.end(), id) - ids.begin();
  };
  const std::vector<int>& here = world.view()->rank_ids;
  const auto own = place_in(deal.rank_ids, world.rank_id());
  if (own < deal.ranks()) return static_cast<int>(own);
  std::vector<int> free;
  for (int seat = 0; seat < deal.ranks(); ++seat) {
    const int id = deal.rank_ids[static_cast<std::size_t>(seat)];
    if (place_in(here, id) == std::ssize(here)) free.push_back(seat);
  }
  std::size_t before = 0;
  for (const int id : here) {
    if (id == world.rank_id()) break;
    if (place_in(deal.rank_ids, id) == deal.ranks()) ++before;
  }
  // More have come than have gone: until the epoch ends they see what others see.
  return free.empty() ? world.rank_id() % deal.ranks() : free[before % free.size()];
}

}  // namespace

DealSeat take_seat(World& world, Run& run) {
  if (!world.view()) return {.number = world.rank(), .of = world.size()};
  const Takeover takeover = takeover_in(world, run);
  run.deal(takeover.deal.empty()
               ? Deal{.rank_ids = world.view()->rank_ids, .nodes = world.topology().nodes()}
               : takeover.deal);
  return {.number = seat_of(world, run.deal()), .of = run.deal().ranks()};
}

}  // namespace daso
