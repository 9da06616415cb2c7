// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "daso/comm/views.h"
#include "daso/comm/world.h"

namespace daso {

// The worlds that a process belongs to, one after the other: one for each view where its launcher
// decides views, else one for good.
class Worlds {
 public:
  explicit Worlds(WorldOptions options);

  const WorldOptions& options() const { return options_; }
  // The views are those of the source, and not the launcher's; before the first world.
  void follow(std::shared_ptr<ViewSource> source);

  const std::shared_ptr<ViewSource>& source() const { return source_; }  // null: one world for good
  // There is another world after one that has broken.
  bool survives() const { return source_ != nullptr; }
  // This process has no part in the run any more.
  bool over() const { return survives() && source_->over(); }
  // The first world, or the next one; the last is then gone. Throws as World::join does, but for a
  // view that ends before all have come: then the next one counts. Throws NodeLeft.
  World& next();
  World& current() { return *world_; }
  bool joined() const { return world_.has_value(); }
  // The view of the current world, where it survives.
  const NextView& view() const { return view_; }

 private:
  const WorldOptions options_;
  std::shared_ptr<ViewSource> source_;
  NextView view_;
  bool since_first_ = true;  // it was there in the first view
  std::optional<World> world_;
};

}  // namespace daso
