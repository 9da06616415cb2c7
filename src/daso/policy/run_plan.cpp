// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/run_plan.h"

namespace daso {

StepInfo RunPlan::at(int epoch, std::int64_t batch) const {
  const std::int64_t first = epoch * batches;
  StepInfo info{.epoch = epoch,
                .step = first + batch,
                .batch = batch,
                .last = std::min(batches, most_steps - first) - 1};
  info.rate = rate(info.step);
  if (info.step + 1 < steps()) info.next_rate = rate(info.step + 1);
  return info;
}

}  // namespace daso
