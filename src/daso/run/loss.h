// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "daso/comm/world.h"
#include "daso/data/evaluation_loader.h"
#include "daso/policy/run_plan.h"
#include "daso/record/progress.h"
#include "daso/tensor/lane.h"

// Losses in training and in evaluation.
//
// A loss that a device computes is not there yet when the call returns, and who reads it waits for
// all that the device has still to do. So nothing in a training step reads one: it is added to a
// sum that stays where the losses are (EpochLoss), and somebody who needs the number reads that:
// what is recorded, an epoch's end, a checkpoint. Whether losses are finite is the one question of
// every step; it is asked late enough for the answer to be there (LossWatch). On a device the same
// is asked of the gradients, by a flag.
namespace daso {

class DeviceFeed;  // in device_feed.h
class Network;     // in network.h

// What training makes smaller: the mean cross entropy of the scores, [..., classes], in nats. With
// label smoothing x the label's class counts 1 - x, and all K classes, its own included, x / K each
// (Szegedy et al., Rethinking the Inception Architecture, section 7; as PyTorch does).
// Scores of half precision count as what they are; a GPU then needs no copies of them in fp32.
at::Tensor training_loss(const at::Tensor& scores, const at::Tensor& labels, double smoothing);

// The mean loss of an epoch under way, of one rank.
class EpochLoss {
 public:
  EpochLoss() = default;  // no step yet
  EpochLoss(double sum, std::int64_t steps);

  void add(const at::Tensor& loss);  // of a step, in fp64; reads nothing

  // These read it.
  double sum() const;
  double mean() const;  // 0 before the first step
  std::int64_t steps() const { return steps_; }

 private:
  at::Tensor sum_;  // undefined before the first step
  std::int64_t steps_ = 0;
};

// Ends a run whose loss or gradients are no longer finite. A step is looked at `lag` steps later: 0
// on the CPU, where its loss is there at once; 2 on a device, which has computed it by then. The
// error names the first such step, whenever it is found out.
class LossWatch {
 public:
  static constexpr std::size_t kDeviceLag = 2;
  // Returns when the condition holds. Whoever reads a tensor of a device waits for all that the
  // device has been given by then; this waits for a copy of the loss that was made in its own step.
  using Wait = std::function<void(const std::function<bool()>& holds)>;

  // The lane of the losses' device is borrowed.
  LossWatch(int rank, std::size_t lag, Lane& lane, Wait wait)
      : rank_(rank), lag_(lag), lane_(lane), wait_(std::move(wait)) {}

  // Throws Error if a step that is old enough is not finite.
  void add(const at::Tensor& loss, const StepInfo& info);
  // Of the step that was added last, with a lag: a flag of its gradients (flat_values.h).
  void add_gradients(const at::Tensor& overflow);
  // Looks at all that are left: before others rely on the steps so far.
  void flush();

 private:
  // A number on its way to the host.
  struct Number {
    at::Tensor there;  // on the device; kept until it is copied
    at::Tensor here;
  };
  struct Entry {
    Number loss;
    Number overflow;  // undefined: nobody asks
    std::shared_ptr<LaneMark> copied;
    std::int64_t step = 0;
    double rate = 0;
  };
  Number bring(const at::Tensor& number);
  void look_until(std::size_t left);
  void refuse_non_finite(const Entry& entry) const;

  const int rank_;
  const std::size_t lag_;
  Lane& lane_;
  const Wait wait_;
  std::deque<Entry> waiting_;
};

// Of a text: e to its mean loss. So many tokens, all equally likely, would be as hard to tell.
double perplexity_of(double loss);

// The score of a model on all examples, each of the ranks doing its part; the same on all of them.
// The network is on the feed's device. By class, too, where their number is given.
Score evaluate(Network& network, DeviceFeed& feed, EvaluationLoader& own_part, Communicator& ranks,
               World& world, int classes = 0);

}  // namespace daso
