// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/device_span.h"

namespace daso {

DeviceSpan::DeviceSpan(Timeline& timeline, Lane& lane, Of of, const char* name, std::int64_t number)
    : timeline_(timeline),
      lane_(lane),
      of_(of),
      name_(name),
      number_(number),
      begin_(timeline.recording() ? moment() : nullptr) {}

DeviceSpan::~DeviceSpan() {
  if (!begin_) return;
  try {
    timeline_.add_late([event = Event{.name = name_, .track = Track::kDevice, .number = number_},
                        begin = begin_, end = moment()]() -> std::optional<Event> {
      const auto from = begin->time();
      const auto to = end ? end->time() : std::nullopt;
      if (!from || !to) return std::nullopt;
      Event known = event;
      known.begin = *from;
      known.end = *to;
      return known;
    });
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // A device that has failed: the error under way says so, or the next call will.
  }
}

std::shared_ptr<LaneMark> DeviceSpan::moment() const {
  return of_ == Of::kLane ? lane_.moment() : lane_.moment_of_caller();
}

}  // namespace daso
