// SPDX-License-Identifier: Apache-2.0
#include "daso/record/time_budget.h"

#include <ATen/ATen.h>

#include "daso/record/lateness.h"

namespace daso {

std::vector<TimeSpent> time_budget(World& world, const TimeSpent& own) {
  std::vector<double> parts{
      own.seconds,   own.exposed_communication, own.hidden_communication, own.data, own.evaluation,
      own.checkpoint};
  const auto causes = static_cast<int>(parts.size());
  parts.insert(parts.end(), own.exposed_by_cause.begin(), own.exposed_by_cause.end());
  const at::Tensor row = at::tensor(parts, at::kDouble).view({1, -1});
  const at::Tensor all = at::empty({world.size(), row.size(1)}, at::kDouble);
  world.everyone().all_gather(row, all).wait(world.limit());
  const auto rows = all.accessor<double, 2>();
  std::vector<TimeSpent> nodes;
  for (int node = 0; node < world.topology().nodes(); ++node) {
    const std::vector<int>& ranks = world.topology().ranks_of(node);
    const auto mean = [&](int column) {
      double sum = 0;
      for (const int rank : ranks) sum += rows[rank][column];
      return sum / static_cast<double>(ranks.size());
    };
    std::array<double, kCauses> by_cause{};
    for (std::size_t i = 0; i < kCauses; ++i) by_cause[i] = mean(causes + static_cast<int>(i));
    nodes.push_back({.node = node_id(world, ranks.front()),
                     .seconds = mean(0),
                     .exposed_communication = mean(1),
                     .exposed_by_cause = by_cause,
                     .hidden_communication = mean(2),
                     .data = mean(3),
                     .evaluation = mean(4),
                     .checkpoint = mean(5)});
  }
  return nodes;
}

}  // namespace daso
