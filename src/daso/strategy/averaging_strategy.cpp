// SPDX-License-Identifier: Apache-2.0
#include "daso/strategy/averaging_strategy.h"

#include <ATen/ATen.h>

namespace daso {
namespace {

std::vector<Share> equal_shares(int ranks) {
  std::vector<Share> shares;
  for (int rank = 0; rank < ranks; ++rank)
    shares.push_back({rank, 1.0F / static_cast<float>(ranks)});
  return shares;
}

}  // namespace

AveragingStrategy::AveragingStrategy(const StrategyParts& parts, Reach farthest)
    : world_(parts.world),
      model_(parts.model),
      gradients_(parts.world, parts.model,
                 {.farthest = farthest,
                  .bucket_elements = parts.options.bucket_elements,
                  .finite = parts.options.finite_gradients}),
      ranks_(farthest == Reach::kWorld ? world_.everyone() : world_.node_group()),
      buffers_mean_(ranks_, equal_shares(ranks_.size())) {}

void AveragingStrategy::begin_backward(const StepInfo& info) {
  gradients_.begin(reach(info), info.step);
}

void AveragingStrategy::before_step() { gradients_.finish(); }

double AveragingStrategy::end_epoch(int epoch, double loss) {
  const TimedSpan wait(world_.timeline(), Track::kWaiting, "losses", epoch, wait_seconds_);
  const at::Tensor mean = at::full({1}, loss, at::kDouble);
  ranks_.all_reduce(mean, Reduce::kMean).wait(world_.limit());
  return mean.item<double>();
}

void AveragingStrategy::average_buffers() {
  if (model_.buffers().numel() == 0) return;
  const TimedSpan wait(world_.timeline(), Track::kWaiting, "buffers", 0, wait_seconds_);
  buffers_mean_(model_.buffers(), world_.limit());
}

Costs AveragingStrategy::costs() const {
  return {.wait_seconds = wait_seconds_ + gradients_.wait_seconds(),
          .communication_seconds = wait_seconds_ + gradients_.busy_seconds(),
          .bytes_between_nodes = gradients_.bytes_between_nodes()};
}

}  // namespace daso
