// SPDX-License-Identifier: Apache-2.0
#include "daso/run/loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"
#include "daso/nets/network.h"
#include "daso/run/device_feed.h"
#include "daso/run/precision.h"
#include "daso/tensor/device.h"

namespace daso {

namespace {

// The mean cross entropy of scores in half precision on a GPU.
class HalfCrossEntropy : public torch::autograd::Function<HalfCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& scores,
                            const at::Tensor& labels) {
    const RowLosses rows = device_module().row_losses(scores, labels);
    context->save_for_backward({scores, labels, rows.log_sums});
    return rows.losses.mean();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor factor = gradients[0] / static_cast<double>(saved[0].size(0));
    return {device_module().row_gradients(saved[0], saved[1], saved[2], factor), at::Tensor()};
  }
};

}  // namespace

at::Tensor training_loss(const at::Tensor& scores, const at::Tensor& labels, double smoothing) {
  constexpr std::int64_t kIgnoreNone = -100;  // no label is negative
  const at::Tensor rows = scores.flatten(0, -2);
  if (scores.is_cuda() && scores.scalar_type() != at::kFloat && smoothing == 0) {
    return HalfCrossEntropy::apply(rows.contiguous(), labels.flatten().contiguous());
  }
  return at::cross_entropy_loss(rows.to(at::kFloat), labels.flatten(), /*weight=*/{},
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
  Entry entry{.loss = bring(loss), .step = info.step, .rate = info.rate};
  entry.copied = lane_.mark();
  waiting_.push_back(std::move(entry));
  look_until(lag_);
}

void LossWatch::add_gradients(const at::Tensor& overflow) {
  DASO_ASSERT(!waiting_.empty());
  waiting_.back().overflow = bring(overflow);
  waiting_.back().copied = lane_.mark();
}

LossWatch::Number LossWatch::bring(const at::Tensor& number) {
  lane_.follow(*lane_.mark_of_caller());
  const at::Tensor room = lane_.host_room(number);
  lane_.copy(room, number);
  return {.there = number, .here = room};
}

void LossWatch::flush() { look_until(0); }

void LossWatch::look_until(std::size_t left) {
  for (; waiting_.size() > left; waiting_.pop_front()) {
    const Entry& oldest = waiting_.front();
    if (!oldest.copied->reached()) wait_([&] { return oldest.copied->reached(); });
    refuse_non_finite(oldest);
  }
}

void LossWatch::refuse_non_finite(const Entry& entry) const {
  const double loss = entry.loss.here.item<double>();
  const bool overflow = entry.overflow.here.defined() && entry.overflow.here.item<int>() != 0;
  if (std::isfinite(loss) && !overflow) return;
  const std::string what = std::isfinite(loss)
                               ? fmt::format("gradients of rank {} are not finite", rank_)
                               : fmt::format("the loss of rank {} is {}", rank_, loss);
  throw Error(
      fmt::format("{} in step {}: the run has diverged; a smaller learning rate than {} may help, "
                  "or --clip-norm",
                  what, entry.step, entry.rate));
}

double perplexity_of(double loss) { return std::exp(loss); }

namespace {

// What ranks add up: these, then of each class its examples, then those that are right.
enum Total : std::int64_t { kLoss, kRight, kLabels, kRightInFive, kLabelsOfFive, kTotals };

// Adds what a network says of a batch to the totals.
void add(const at::Tensor& totals, const at::Tensor& scores, const at::Tensor& labels,
         bool of_images) {
  constexpr std::int64_t kFive = 5;
  const auto plus = [&](Total total, const at::Tensor& value) {
    totals[total] += value.to(at::kDouble);
  };
  const at::Tensor right = scores.argmax(1).eq(labels);
  plus(kLoss, at::cross_entropy_loss(scores, labels, /*weight=*/{}, at::Reduction::Sum));
  plus(kRight, right.sum());
  totals[kLabels] += static_cast<double>(labels.numel());
  if (of_images && scores.size(1) > kFive) {
    const at::Tensor better = scores.gt(scores.gather(1, labels.unsqueeze(1))).sum(1);
    plus(kRightInFive, better.lt(kFive).sum());
    totals[kLabelsOfFive] += static_cast<double>(labels.numel());
  }
  const std::int64_t classes = (totals.size(0) - kTotals) / 2;
  if (classes == 0) return;
  totals.narrow(0, kTotals, classes) += at::bincount(labels, /*weights=*/{}, classes);
  totals.narrow(0, kTotals + classes, classes) +=
      at::bincount(labels.masked_select(right), /*weights=*/{}, classes);
}

Score score_of(const at::Tensor& totals) {
  const auto number = [&](std::int64_t i) { return totals[i].item<double>(); };
  const double labels = std::max(1.0, number(kLabels));
  Score score{.loss = number(kLoss) / labels, .accuracy = number(kRight) / labels};
  if (number(kLabelsOfFive) > 0) score.top5 = number(kRightInFive) / number(kLabelsOfFive);
  const std::int64_t classes = (totals.size(0) - kTotals) / 2;
  for (std::int64_t i = 0; i < classes; ++i) {
    score.classes.push_back({.examples = static_cast<std::int64_t>(number(kTotals + i)),
                             .right = static_cast<std::int64_t>(number(kTotals + classes + i))});
  }
  return score;
}

}  // namespace

Score evaluate(Network& network, DeviceFeed& feed, EvaluationLoader& own_part, Communicator& ranks,
               World& world, int classes) {
  const at::NoGradGuard no_grad;
  const at::Device device = feed.device();
  const GpuArithmetic arithmetic(device.type());
  const bool was_training = network.is_training();
  network.eval();
  at::Tensor totals = at::zeros({kTotals + 2 * std::int64_t{classes}},
                                at::TensorOptions(at::kDouble).device(device));
  own_part.start();
  feed.start(own_part, own_part.batches());
  for (std::int64_t i = 0; i < own_part.batches(); ++i) {
    const Batch batch = feed.next();
    const at::Tensor scores = network.forward(batch.inputs);
    const bool of_images = scores.dim() == 2;  // a text has scores at every place
    add(totals, scores.flatten(0, -2), batch.labels.flatten(), of_images);
  }
  network.train(was_training);
  world.wait_for(device, "evaluating");
  {
    const TimedSpan span(world.timeline(), Track::kScores, "scores", 0);
    totals = ranks.all_reduce(totals.cpu(), Reduce::kSum).wait(world.limit());
  }
  return score_of(totals);
}

}  // namespace daso
