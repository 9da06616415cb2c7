// SPDX-License-Identifier: Apache-2.0
#include "daso/record/meter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace daso {

Meter::Meter(World& world, const Strategy& strategy, std::int64_t samples_per_step)
    : world_(world),
      strategy_(strategy),
      samples_per_step_(static_cast<double>(samples_per_step)) {}

void Meter::start() {
  running_ = true;
  start_ = last_ = Clock::now();
  at_start_ = now_counted();
  epoch_wait_ = last_wait_ = waited();
  epoch_steps_ = 0;
}

void Meter::stop() {
  for (std::size_t track = 0; track < kTracks; ++track) {
    counted_[track] = counted(static_cast<Track>(track));
  }
  seconds_ = seconds();
  running_ = false;
}

void Meter::step() {
  ++steps_;
  ++epoch_steps_;
}

StepSeconds Meter::step_seconds() {
  const double whole = since(std::exchange(last_, Clock::now())).count();
  const double before = std::exchange(last_wait_, waited());
  return {.whole = whole, .worked = whole - (last_wait_ - before)};
}

void Meter::hear(const std::optional<Late>& late, const std::vector<double>& worked) {
  if (!late) return;
  last_late_ = late;
  worked_ = worked;
  if (is_late(late->seconds)) late_.push_back(*late);
}

Progress Meter::progress(const StepInfo& info, int epochs) const {
  const double of_epoch = since(start_).count();
  return {.info = info,
          .epochs = epochs,
          .steps = epochs * (info.last + 1),
          .seconds = seconds(),
          .strategy = strategy_.status(),
          .loss = 0,
          .own_loss = {},
          .recent_loss = 0,
          .samples_per_second = static_cast<double>(epoch_steps_) * samples_per_step_ / of_epoch,
          .wait_share = (waited() - epoch_wait_) / of_epoch,
          .wait_seconds = waited(),
          .bytes_between_nodes = strategy_.costs().bytes_between_nodes,
          .late = last_late_,
          .worked = worked_,
          .test = std::nullopt,
          .members = world_.view() ? std::optional(world_.topology().nodes()) : std::nullopt};
}

TimeSpent Meter::spent() const {
  double hidden = strategy_.costs().background_seconds;
  for (std::size_t i = 0; i < kTracks; ++i) {
    const auto track = static_cast<Track>(i);
    if (waits_for_background(track)) hidden -= counted(track);
  }
  return {.node = world_.node_id(),
          .seconds = seconds(),
          .exposed_communication = waited(),
          .exposed_by_cause = waited_by_cause(),
          .hidden_communication = std::max(0.0, hidden),
          .data = counted(Track::kData),
          .evaluation = counted(Track::kEvaluation),
          .checkpoint = counted(Track::kCheckpoint)};
}

Summary Meter::summary() const {
  at::Tensor totals = at::tensor(
      {waited() / world_.size(), static_cast<double>(strategy_.costs().bytes_between_nodes)},
      at::kDouble);
  totals = world_.everyone().all_reduce(totals, Reduce::kSum).wait(world_.limit());
  Summary summary;
  summary.nodes = world_.topology().nodes();
  summary.ranks = world_.size();
  summary.seconds = seconds();
  summary.samples_per_second = static_cast<double>(steps_) * samples_per_step_ / seconds();
  summary.wait_seconds = totals[0].item<double>();
  summary.bytes_between_nodes = static_cast<std::int64_t>(totals[1].item<double>());
  summary.time_budget = time_budget(world_, spent());
  for (int rank = 0; rank < world_.size(); ++rank) {
    summary.late.push_back(
        {.rank = rank_id(world_, rank), .node = node_id(world_, rank), .lateness = {}});
  }
  for (const Late& one : late_) {
    Lateness& of_rank = std::ranges::find(summary.late, one.rank, &RankLateness::rank)->lateness;
    ++of_rank.times;
    of_rank.seconds += one.seconds;
  }
  return summary;
}

Meter::Counts Meter::now_counted() const {
  Counts counts{};
  for (std::size_t track = 0; track < kTracks; ++track) {
    counts[track] = world_.timeline().counted(static_cast<Track>(track));
  }
  return counts;
}

double Meter::counted(Track track) const {
  const auto at = static_cast<std::size_t>(track);
  return counted_[at] + (running_ ? world_.timeline().counted(track) - at_start_[at] : 0);
}

std::array<double, kCauses> Meter::waited_by_cause() const {
  std::array<double, kCauses> causes{};
  for (std::size_t i = 0; i < kTracks; ++i) {
    const auto track = static_cast<Track>(i);
    if (const auto cause = cause_of(track)) {
      causes[static_cast<std::size_t>(*cause)] += counted(track);
    }
  }
  return causes;
}

double Meter::waited() const {
  const std::array<double, kCauses> causes = waited_by_cause();
  return std::accumulate(causes.begin(), causes.end(), 0.0);
}

double Meter::seconds() const { return seconds_ + (running_ ? since(start_).count() : 0); }

}  // namespace daso
