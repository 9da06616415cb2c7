// SPDX-License-Identifier: Apache-2.0
#include "daso/base/timeline.h"

namespace daso {

void Timeline::add(const Event& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

std::vector<Event> Timeline::events() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

double Timeline::waited() const {
  double seconds = 0;
  for (std::size_t track = 0; track < kTracks; ++track) {
    if (cause_of(static_cast<Track>(track))) seconds += counted_[track];
  }
  return seconds;
}

}  // namespace daso
