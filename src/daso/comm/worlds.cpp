// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/worlds.h"

#include <utility>

#include "daso/base/error.h"
#include "daso/comm/open_store.h"
#include "daso/comm/operation.h"

namespace daso {

Worlds::Worlds(WorldOptions options)
    : options_(std::move(options)), line_(LauncherLine::find(this_environment())) {}

World& Worlds::next() {
  if (!survives()) {
    require(!world_, "this job has one world: its launcher does not decide views");
    return world_.emplace(World::join(options_));
  }
  if (world_) {
    const std::optional<Failure> failure = world_->guard().alarm->raised();
    if (failure && !line_->ended()) line_->tell_trouble(failure->text);
  }
  world_.reset();
  for (;;) {
    view_ = line_->next_view(joining_limit(options_));
    try {
      return world_.emplace(
          World::join(options_in(view_, options_, options_.place.rank, line_)));
    } catch (const PeerError& error) {
      // Somebody was lost meanwhile.
      if (!line_->ended()) line_->tell_trouble(error.what());
    }
  }
}

}  // namespace daso
