// SPDX-License-Identifier: Apache-2.0
#include "daso/record/lateness.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace daso {
namespace {

constexpr std::int64_t kRow = 1 + StepTimes::kInterval;  // a word, and the steps' seconds

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

}  // namespace

StepTimes::StepTimes(World& world, const std::string& name)
    : world_(world), ranks_(world.group(all_ranks(world.size()), name)) {}

void StepTimes::add(std::int64_t step, double worked) {
  worked_[static_cast<std::size_t>(step % kInterval)] = worked;
  ++steps_;
}

std::optional<Heard> StepTimes::collect() {
  if (!collecting_) return std::nullopt;
  const at::Tensor rows = (*std::exchange(collecting_, std::nullopt)).wait(world_.limit());
  Heard heard{
      .late = std::nullopt, .worked = {}, .largest_word = rows.select(1, 0).max().item<double>()};
  // The first collection of a process may hold steps that it has not done.
  if (steps_ >= 2 * kInterval && world_.size() > 1) {
    heard.late = latest_in(rows);
    const at::Tensor means = rows.narrow(1, 1, kInterval).mean(1);
    const auto* mean = means.const_data_ptr<double>();
    heard.worked.assign(mean, mean + world_.size());
  }
  return heard;
}

void StepTimes::tell(std::int64_t step, double word) {
  const at::Tensor mine = at::empty({1, kRow}, at::kDouble);
  auto* row = mine.mutable_data_ptr<double>();
  row[0] = word;
  std::copy(worked_.begin(), worked_.end(), row + 1);
  told_step_ = step;
  collecting_ = ranks_.all_gather(mine, at::empty({world_.size(), kRow}, at::kDouble));
}

Late StepTimes::latest_in(const at::Tensor& rows) const {
  const auto seconds = rows.accessor<double, 2>();
  Late latest;
  for (std::int64_t back = 0; back < kInterval; ++back) {
    const std::int64_t step = told_step_ - back;
    const std::int64_t column = 1 + step % kInterval;
    std::vector<double> of_ranks;
    for (std::int64_t rank = 0; rank < world_.size(); ++rank) {
      of_ranks.push_back(seconds[rank][column]);
    }
    const auto longest = std::max_element(of_ranks.begin(), of_ranks.end());
    const double excess = *longest - middle_of(of_ranks);
    if (excess <= latest.seconds) continue;
    latest = {static_cast<int>(longest - of_ranks.begin()), step, excess};
  }
  return latest;
}

}  // namespace daso
