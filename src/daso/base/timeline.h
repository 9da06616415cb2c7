// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "daso/base/seconds.h"

namespace daso {

// A row of a trace. What overlaps others of its row stands in one that allows it.
enum class Track : std::uint8_t {
  kTraining,    // steps, and what computes in them
  kWaiting,     // the training thread waits for others
  kData,        // it waits for a batch
  kEvaluation,  // of the test part
  kBuckets,     // gradients on their way; several at once
  kExchange,    // the exchange thread
  kInFlight,    // exchanges from start to merge
  kCheckpoint,  // taken and written
};
inline constexpr std::size_t kTracks = 8;

// Something that took time.
struct Event {
  const char* name = "";  // a literal
  Track track = Track::kTraining;
  std::int64_t number = 0;  // of the step, the bucket or the exchange
  Clock::time_point begin;  // of a wait: when this rank arrived
  Clock::time_point end;
  const std::vector<int>* talked_to = nullptr;  // world ranks; outlives the timeline
};

// What one rank did when, while it is asked to record. Any thread may add to it.
class Timeline {
 public:
  void record(bool on) { on_.store(on, std::memory_order_relaxed); }
  bool recording() const { return on_.load(std::memory_order_relaxed); }

  void add(const Event& event);
  std::vector<Event> events() const;

 private:
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;
  std::vector<Event> events_;
};

// An event from here to the end of the block. Costs a look at a flag where nothing is recorded.
class Span {
 public:
  Span(Timeline& timeline, Track track, const char* name, std::int64_t number)
      : timeline_(timeline.recording() ? &timeline : nullptr),
        event_{.name = name, .track = track, .number = number} {
    if (timeline_ != nullptr) event_.begin = Clock::now();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    if (timeline_ == nullptr) return;
    event_.end = Clock::now();
    timeline_->add(event_);
  }
  void talked_to(const std::vector<int>& ranks) { event_.talked_to = &ranks; }

 private:
  Timeline* timeline_;
  Event event_;
};

// The same, and adds its seconds to a total, recorded or not.
class TimedSpan {
 public:
  TimedSpan(Timeline& timeline, Track track, const char* name, std::int64_t number, double& total)
      : timeline_(timeline), track_(track), name_(name), number_(number), total_(total) {}
  TimedSpan(const TimedSpan&) = delete;
  TimedSpan& operator=(const TimedSpan&) = delete;
  ~TimedSpan() {
    const auto end = Clock::now();
    total_ += Seconds(end - begin_).count();
    if (timeline_.recording()) {
      timeline_.add(
          {.name = name_, .track = track_, .number = number_, .begin = begin_, .end = end});
    }
  }

 private:
  Timeline& timeline_;
  const Track track_;
  const char* name_;
  const std::int64_t number_;
  double& total_;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace daso
