// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/worlds.h"

#include <utility>

#include "daso/base/error.h"
#include "daso/comm/launcher_line.h"
#include "daso/comm/open_store.h"
#include "daso/comm/operation.h"

namespace daso {

Worlds::Worlds(WorldOptions options)
    : options_(std::move(options)), source_(LauncherLine::find(this_environment())) {}

void Worlds::follow(std::shared_ptr<ViewSource> source) {
  DASO_ASSERT(!world_);
  source_ = std::move(source);
}

World& Worlds::next() {
  if (!survives()) {
    require(!world_, "this job has one world: its launcher does not decide views");
    return world_.emplace(World::join(options_));
  }
  if (world_) {
    const std::optional<Failure> failure = world_->guard().alarm->raised();
    const bool as_planned = view_.end && !failure;
    if (!as_planned) source_->trouble(failure ? failure->text : "an operation failed");
  }
  world_.reset();
  for (;;) {
    const bool is_first = view_.number == 0;
    view_ = source_->next_view(joining_limit(options_));
    if (is_first) since_first_ = view_.number == kFirstView;
    try {
      WorldOptions options = options_in(view_, options_, options_.place.rank, source_);
      options.view->since_first = since_first_;
      return world_.emplace(World::join(options));
    } catch (const PeerError& error) {
      // Somebody was lost meanwhile.
      source_->trouble(error.what());
    } catch (const ConfigError& error) {
      // Whoever has been in a view fits: there is nothing for the user to mend.
      if (is_first) throw;
      source_->trouble(error.what());
    }
  }
}

}  // namespace daso
