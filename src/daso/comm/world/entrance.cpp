// SPDX-License-Identifier: Apache-2.0
// A world that is made for a view ends with it, but a node that has entered has things to finish
// then: what its ranks do together goes on, under a guard of its own. Until all of them have
// entered bad news ends that as well, since one that has given the view up does nothing more in it.
#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "daso/base/error.h"
#include "daso/comm/world/body.h"

namespace daso {

// In a world that ends with its view a node that has entered trains on when another one is lost:
// only bad news about itself ends what its ranks do together.
void World::Body::keep_home() {
  home = guard;
  if (!options.view) return;
  home.alarm = std::make_shared<Alarm>();
  const std::vector<int>& own = topology.ranks_of(topology.node_of(rank));
  guard.alarm->on_raise([alarm = home.alarm, threshold = threshold, own](const Failure& failure) {
    const auto is_own = [&](int lost) {
      return std::find(own.begin(), own.end(), lost) != own.end();
    };
    const bool about_us = failure.kind == Failure::Kind::kConfig ||
                          std::any_of(failure.missing.begin(), failure.missing.end(), is_own);
    const std::lock_guard lock(threshold->mutex);
    if (about_us || !threshold->passed) alarm->raise(failure);
  });
  if (own.size() > 1) open_entrance();
}

// No bad news end what happens there: whoever has heard some says so.
void World::Body::open_entrance() {
  LinkPlan plan = link_plan("entrance", at::Device(at::kCPU));
  plan.guard = {.alarm = std::make_shared<Alarm>(), .lookout = guard.lookout};
  plan.making = guard;
  plan.group = [this, ranks = plan.name.ranks, name = plan.name.text,
                own = plan.guard]() -> Communicator& { return make_group(ranks, name, own); };
  entrance = open_link(plan);
}

// Whether all ranks of the node are ready.
bool World::Body::pass_entrance(bool ready, Seconds limit) {
  const std::unique_ptr<NodeLink> link = std::exchange(entrance, nullptr);
  if (!link) return ready;
  const at::Tensor all = at::zeros({link->size()}, at::kLong);
  all[link->rank()] = static_cast<std::int64_t>(ready);
  link->gather(all, {.slices = link->size()}, limit);
  return all.all().item<bool>();
}

void World::enter() {
  if (!view()) return;
  bool ready = false;
  {
    const std::lock_guard lock(body_->threshold->mutex);
    body_->threshold->passed = true;
    ready = !body_->home.alarm->raised();
  }
  if (body_->pass_entrance(ready, limit())) return;
  const std::optional<Failure> failure = body_->guard.alarm->raised();
  throw PeerError(failure ? failure->text : "another rank of this node has given this view up");
}

}  // namespace daso
