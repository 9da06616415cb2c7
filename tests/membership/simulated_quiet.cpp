// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "membership/simulation.h"

// What must be so when faults are over.
namespace daso::membership {

// Whether enough of the last view live, can reach each other, and have not begun to give up. Who is
// alone may stop just before it would hear the others again, so it does not count.
bool Simulation::progress_is_due() const {
  const View& last = history_.latest();
  std::vector<Member> able;
  bool known = false;       // one of them is in the last view, and can tell the others
  std::size_t staying = 0;  // of them; the others leave
  std::size_t most =
      0;                // members that the next view may have: also dead ones, if they had reported
  bool others = false;  // somebody else of the last view lives, and may compete for the tie-break
  for (const Member& member : last.members) {
    const Node& node = nodes_[member.node];
    if (!node.leaving) ++most;
    if (!node.machine || node.life != member.incarnation) continue;
    if (node.machine->alone_since()) {
      others = true;
      continue;
    }
    able.push_back(member);
    known = known || node.machine->view().number == last.number;
    if (!node.leaving) ++staying;
  }
  // A joiner that dies while it enters is a member, too.
  for (unsigned which = 0; which < script_.nodes; ++which) {
    if (!nodes_[which].machine && member_of(last.members, which) == nullptr) ++most;
  }
  // Who leaves may decide for the others without the half of them that lives.
  const bool half_suffices = script_.tie_break && !others && staying == able.size();
  if (2 * staying < most || (2 * staying == most && !half_suffices)) return false;
  const auto granted = [&](ViewNumber number) -> std::optional<std::vector<Member>> {
    const auto found = tie_break_.find(number);
    if (found != tie_break_.end()) return found->second;
    return half_suffices ? std::optional(able) : std::nullopt;
  };
  if (!decides(last.members, able, granted(last.number + 1))) return false;
  // What was proposed may be decided, though it was made before the last faults.
  const auto proposed = proposed_.find(last.number + 1);
  if (proposed != proposed_.end() && !std::ranges::all_of(proposed->second, [&](const View& next) {
        return decides(next.members, able, half_suffices ? std::optional(able) : std::nullopt);
      })) {
    return false;
  }
  return known || (last.number > 1 &&
                   decides(history_.views()[last.number - 2].members, able, granted(last.number)));
}

void Simulation::check_end(std::size_t commits_before) const {
  const View& last = history_.latest();
  const auto lives = [&](unsigned which) { return nodes_[which].machine.has_value(); };
  unsigned acting = 0;
  for (unsigned which = 0; which < script_.nodes; ++which) {
    if (!lives(which)) continue;
    const Membership& machine = *nodes_[which].machine;
    if (machine.phase() == Membership::Phase::kActing && machine.view() == last) {
      ++acting;
    } else if (machine.phase() != Membership::Phase::kJoining) {
      throw Violation(fmt::format("node {} hangs in {}, the last is {}", which,
                                  text(machine.view()), text(last)));
    }
  }
  if (acting == 0) {
    const bool left = std::ranges::all_of(
        last.members, [&](const Member& member) { return contains(left_, member); });
    if (demanded_ && !left) throw Violation("a majority has stopped");
    return;
  }
  for (unsigned which = 0; which < script_.nodes; ++which) {
    if (lives(which) && nodes_[which].machine->phase() == Membership::Phase::kJoining) {
      throw Violation(fmt::format("node {} does not get in", which));
    }
  }
  for (const Member& member : last.members) {
    if (!lives(member.node)) throw Violation(fmt::format("node {} is still in", member.node));
  }
  if (history_.size() == commits_before) throw Violation("nothing is committed any more");
}

}  // namespace daso::membership
