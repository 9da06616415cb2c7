// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "daso/base/seconds.h"
#include "daso/membership/view.h"

// Who seems to be gone. Suspicion may be wrong, and may be taken back: it says when a view is to
// change, never what is decided.
namespace daso::membership {

class Watch {
 public:
  Watch() = default;
  Watch(const View& view, const Member& self, Seconds now);

  void heard(NodeId node, Seconds now);
  // Certain: its connection was reset, its launcher says so, or it has a successor. Not taken back.
  void died(NodeId node);
  // Suspects who has been silent for longer than the limit.
  void look(Seconds now, Seconds silence);
  // For a watcher that has slept: it cannot know who spoke meanwhile, so it accuses nobody, and
  // listens for a whole limit again.
  void forgive(Seconds now);

  // Certainly dead, or silent when we last looked.
  bool lost(NodeId node) const;
  bool dead(NodeId node) const;
  std::vector<Member> dead() const;  // ascending
  bool any_lost() const;
  // We and all others that are not lost, ascending.
  std::vector<Member> reachable() const;

 private:
  struct Peer {
    Member member;
    Seconds heard{0};
    bool silent = false;
    bool dead = false;
    bool lost() const { return silent || dead; }
  };
  const Peer* find(NodeId node) const;
  Peer* find(NodeId node);

  Member self_;
  std::vector<Peer> peers_;
};

}  // namespace daso::membership
