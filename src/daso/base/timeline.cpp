// SPDX-License-Identifier: Apache-2.0
#include "daso/base/timeline.h"

namespace daso {

void Timeline::add(const Event& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

void Timeline::add_late(LateEvent event) {
  const std::lock_guard lock(mutex_);
  late_.push_back(std::move(event));
}

std::vector<Event> Timeline::events() const {
  const std::lock_guard lock(mutex_);
  std::vector<Event> all = events_;
  for (const LateEvent& late : late_) {
    if (const std::optional<Event> event = late()) all.push_back(*event);
  }
  return all;
}

double Timeline::waited() const {
  double seconds = 0;
  for (std::size_t track = 0; track < kTracks; ++track) {
    if (cause_of(static_cast<Track>(track))) seconds += counted_[track];
  }
  return seconds;
}

}  // namespace daso
