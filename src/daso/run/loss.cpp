// SPDX-License-Identifier: Apache-2.0
#include "daso/run/loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"
#include "daso/nets/network.h"

namespace daso {

at::Tensor training_loss(const at::Tensor& scores, const at::Tensor& labels, double smoothing) {
  constexpr std::int64_t kIgnoreNone = -100;  // no label is negative
  return at::cross_entropy_loss(scores.flatten(0, -2), labels.flatten(), /*weight=*/{},
                                at::Reduction::Mean, kIgnoreNone, smoothing);
}

EpochLoss::EpochLoss(double sum, std::int64_t steps)
    : sum_(at::scalar_tensor(sum, at::kDouble)), steps_(steps) {}

// Into a new tensor: copies of this object keep what they have.
void EpochLoss::add(const at::Tensor& loss) {
  sum_ = sum_.defined() ? sum_ + loss : loss;
  ++steps_;
}

double EpochLoss::sum() const { return sum_.defined() ? sum_.item<double>() : 0; }
double EpochLoss::mean() const { return steps_ == 0 ? 0 : sum() / static_cast<double>(steps_); }

void LossWatch::add(const at::Tensor& loss, const StepInfo& info) {
  waiting_.push_back({loss, info.step, info.rate});
  look_until(lag_);
}

void LossWatch::flush() { look_until(0); }

void LossWatch::look_until(std::size_t left) {
  for (; waiting_.size() > left; waiting_.pop_front()) {
    const Entry& oldest = waiting_.front();
    const double loss = oldest.loss.item<double>();
    if (std::isfinite(loss)) continue;
    throw Error(
        fmt::format("the loss of rank {} is {} in step {}: the run has diverged; a smaller "
                    "learning rate than {} may help, or --clip-norm",
                    rank_, loss, oldest.step, oldest.rate));
  }
}

Score evaluate(Network& network, EvaluationLoader& own_part, Communicator& ranks, World& world) {
  const at::NoGradGuard no_grad;
  const bool was_training = network.is_training();
  network.eval();
  at::Tensor totals = at::zeros({3}, at::kDouble);  // loss, right labels, all labels
  own_part.start();
  for (std::int64_t i = 0; i < own_part.batches(); ++i) {
    const Batch batch = own_part.next();
    const at::Tensor scores = network.forward(batch.inputs).flatten(0, -2);
    const at::Tensor labels = batch.labels.flatten();
    const at::Tensor loss =
        at::cross_entropy_loss(scores, labels, /*weight=*/{}, at::Reduction::Sum);
    totals[0] += loss.to(at::kDouble);
    totals[1] += scores.argmax(1).eq(labels).sum().to(at::kDouble);
    totals[2] += static_cast<double>(labels.numel());
  }
  network.train(was_training);
  {
    const TimedSpan span(world.timeline(), Track::kCommunicating, "scores", 0);
    totals = ranks.all_reduce(totals, Reduce::kSum).wait(world.limit());
  }
  const double labels = std::max(1.0, totals[2].item<double>());
  return {.loss = totals[0].item<double>() / labels, .accuracy = totals[1].item<double>() / labels};
}

}  // namespace daso
