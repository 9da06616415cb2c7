// SPDX-License-Identifier: Apache-2.0
#include "daso/record/lateness.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace daso {
namespace {

// A rank's row: its word, how long its steps take, and the seconds worked in each.
constexpr std::int64_t kWord = 0;
constexpr std::int64_t kStep = 1;
constexpr std::int64_t kWorked = 2;
constexpr std::int64_t kRow = kWorked + StepTimes::kMostSteps;

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

// The smaller one of two.
double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A word that comes just after a collection began is told in the next one, and heard in the one
// after that. Grows slowly: a first step may be quick by chance.
std::int64_t next_interval(std::int64_t interval, double step_seconds) {
  std::int64_t next = std::min(2 * interval, StepTimes::kMostSteps);
  const auto too_long = [&] {
    return 2 * static_cast<double>(next) * step_seconds > StepTimes::kHeardWithin.count();
  };
  while (next > 1 && too_long()) next /= 2;
  return next;
}

}  // namespace

int rank_id(const World& world, int rank) {
  return world.view() ? world.view()->rank_ids.at(static_cast<std::size_t>(rank)) : rank;
}

int node_id(const World& world, int rank) {
  const int node = world.topology().node_of(rank);
  return world.view() ? world.view()->node_ids.at(static_cast<std::size_t>(node)) : node;
}

StepTimes::StepTimes(World& world, const std::string& name)
    : world_(world), ranks_(world.group(all_ranks(world.size()), name)) {}

void StepTimes::add(std::int64_t step, StepSeconds seconds) {
  steps_[static_cast<std::size_t>(step % kMostSteps)] = seconds;
  ++untold_;
}

std::optional<Heard> StepTimes::collect() {
  if (!collecting_) return std::nullopt;
  const at::Tensor rows = (*std::exchange(collecting_, std::nullopt)).wait(world_.limit());
  interval_ = next_interval(interval_, rows.select(1, kStep).max().item<double>());
  Heard heard{.late = std::nullopt,
              .worked = {},
              .largest_word = rows.select(1, kWord).max().item<double>()};
  // The first step of a process is slow for reasons of its own.
  if (!std::exchange(told_first_, false) && world_.size() > 1) {
    heard.late = latest_in(rows);
    heard.worked = means_in(rows);
  }
  return heard;
}

void StepTimes::tell(std::int64_t step, double word) {
  const at::Tensor mine = at::zeros({1, kRow}, at::kDouble);
  auto* row = mine.mutable_data_ptr<double>();
  row[kWord] = word;
  std::vector<double> whole;
  for (std::int64_t back = 0; back < untold_; ++back) {
    const std::int64_t column = (step - back) % kMostSteps;
    const StepSeconds& seconds = steps_[static_cast<std::size_t>(column)];
    row[kWorked + column] = seconds.worked;
    whole.push_back(seconds.whole);
  }
  // The middle one: an evaluation may have come in between.
  row[kStep] = middle_of(std::move(whole));
  told_step_ = step;
  told_ = std::exchange(untold_, 0);
  collecting_ = ranks_.all_gather(mine, at::empty({world_.size(), kRow}, at::kDouble));
}

Late StepTimes::latest_in(const at::Tensor& rows) const {
  const auto seconds = rows.accessor<double, 2>();
  Late latest;
  for (std::int64_t back = 0; back < told_; ++back) {
    const std::int64_t step = told_step_ - back;
    const std::int64_t column = kWorked + step % kMostSteps;
    std::vector<double> of_ranks;
    for (std::int64_t rank = 0; rank < world_.size(); ++rank) {
      of_ranks.push_back(seconds[rank][column]);
    }
    const auto longest = std::max_element(of_ranks.begin(), of_ranks.end());
    const double excess = *longest - middle_of(of_ranks);
    if (excess <= latest.seconds) continue;
    const int rank = static_cast<int>(longest - of_ranks.begin());
    latest = {rank_id(world_, rank), node_id(world_, rank), step, excess};
  }
  return latest;
}

std::vector<double> StepTimes::means_in(const at::Tensor& rows) const {
  // Steps that were not told of are 0 there.
  const at::Tensor means = rows.narrow(1, kWorked, kMostSteps).sum(1) / told_;
  const auto* mean = means.const_data_ptr<double>();
  return {mean, mean + world_.size()};
}

}  // namespace daso
