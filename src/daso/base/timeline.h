// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "daso/base/seconds.h"

// When a rank did what, measured once for two readers. A Span is an event of a trace and costs next
// to nothing while no trace is recorded. A TimedSpan is the same and besides always counts its
// seconds for its track: all that is told of where a rank's time went (wait_seconds, the time
// budget) is read from these counts.
namespace daso {

// A kind of time.
enum class Track : std::uint8_t {
  kTraining,       // steps, and what computes in them
  kWaiting,        // the training thread waits for communication that runs in the background
  kData,           // it waits for a batch
  kEvaluation,     // of the test part
  kBuckets,        // gradients on their way; several at once
  kExchange,       // the exchange thread
  kInFlight,       // exchanges from start to merge
  kCheckpoint,     // taken and written
  kDevice,         // what a device does, in its own time; several at once
  kCommunicating,  // the training thread communicates itself: nothing hides this
  // The same two, where it is known what for. It waits for
  kAllGradients,   // gradients of all ranks
  kNodeGradients,  // gradients of its node
  kMerge,          // an exchange that is merged
  kSettling,       // the rest of an agreement
  // and communicates itself for
  kAverage,     // parameters that become their mean at once
  kAgreement,   // an agreement, and the means of an epoch
  kScores,      // the sum of what an evaluation found
  kStatistics,  // the statistics of a batch, shared by the node
};
inline constexpr std::size_t kTracks = 18;

// What the training thread waits for that runs in the background.
constexpr bool waits_for_background(Track track) {
  return track == Track::kWaiting || track == Track::kAllGradients ||
         track == Track::kNodeGradients || track == Track::kMerge || track == Track::kSettling;
}

// Why the training thread was blocked in communication.
enum class Cause : std::uint8_t {
  kAllGradients,
  kNodeGradients,
  kMerges,
  kAgreements,
  kEvaluation,
  kStatistics,
  kOther
};
inline constexpr std::array kCauseNames{"all_gradients", "node_gradients", "merges", "agreements",
                                        "evaluation",    "statistics",     "other"};
inline constexpr std::size_t kCauses = kCauseNames.size();

// None of a track in which it is not blocked.
constexpr std::optional<Cause> cause_of(Track track) {
  switch (track) {
    case Track::kAllGradients:
      return Cause::kAllGradients;
    case Track::kNodeGradients:
      return Cause::kNodeGradients;
    case Track::kMerge:
    case Track::kAverage:
      return Cause::kMerges;
    case Track::kSettling:
    case Track::kAgreement:
      return Cause::kAgreements;
    case Track::kScores:
      return Cause::kEvaluation;
    case Track::kStatistics:
      return Cause::kStatistics;
    case Track::kWaiting:
    case Track::kCommunicating:
      return Cause::kOther;
    default:
      return std::nullopt;
  }
}

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
  // One whose times are not known yet. It is asked for them when events() is; none: it is left out.
  using LateEvent = std::function<std::optional<Event>()>;
  void add_late(LateEvent event);
  std::vector<Event> events() const;

  // The seconds of all timed spans so far, recorded or not. For the training thread.
  double counted(Track track) const { return counted_[static_cast<std::size_t>(track)]; }
  // Those in which the training thread was blocked in communication.
  double waited() const;

 private:
  friend class TimedSpan;

  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;
  std::vector<Event> events_;
  std::vector<LateEvent> late_;
  std::array<double, kTracks> counted_{};
  double inner_ = 0;  // seconds of timed spans inside the one that is open
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

// The same for the training thread alone, and its seconds count, recorded or not. Those of a timed
// span inside it count for the inner one only, so that no second counts twice: a wait in the middle
// of an evaluation is waiting, not evaluation.
class TimedSpan {
 public:
  TimedSpan(Timeline& timeline, Track track, const char* name, std::int64_t number)
      : timeline_(timeline),
        track_(track),
        name_(name),
        number_(number),
        before_(std::exchange(timeline.inner_, 0)) {}
  TimedSpan(const TimedSpan&) = delete;
  TimedSpan& operator=(const TimedSpan&) = delete;
  ~TimedSpan() {
    const auto end = Clock::now();
    const double seconds = Seconds(end - begin_).count();
    timeline_.counted_[static_cast<std::size_t>(track_)] += seconds - timeline_.inner_;
    timeline_.inner_ = before_ + seconds;
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
  const double before_;  // seconds of the timed spans that ended before this one in the same outer
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace daso
