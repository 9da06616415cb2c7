// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "daso/kernels/kernels.h"

// What a step of an optimizer does to flat parameters; optim/ decides on the numbers. Factors are
// computed in double and rounded to fp32 once; after that each operation on an element is rounded
// to fp32 by itself, with the same bits from every table, so ranks that hold equal parameters and
// gradients stay equal. All spans of a call have the same number of elements, any number. A step is
// one call for all runs of elements, which differ in weight decay and in whether their rate adapts:
// on a GPU a call costs as much as a million elements.
namespace daso {

struct SgdStep {
  float learning_rate = 0;
  float momentum = 0;
  bool nesterov = false;
  bool first = false;  // of the run: the momentum buffer is written and not read
};

// Stochastic gradient descent, in one pass over memory:
//   d        = gradients + weight_decay * parameters
//   velocity = d                           the first time
//   velocity = momentum * velocity + d     later
//   parameters = parameters - learning_rate * velocity
//   parameters = parameters - learning_rate * (d + momentum * velocity)   with Nesterov's momentum
// Without momentum `velocity` is empty, and d takes its place.
void sgd_update(const SgdStep& step, const kernels::Runs& runs, std::span<const float> gradients,
                std::span<float> parameters, std::span<float> velocity,
                const Kernels& kernels = cpu_kernels());

struct LarsStep {
  double learning_rate = 0;
  double trust = 0.001;
  float momentum = 0;
};

// LARS, in two passes: the norms of parameters and gradients of each run; then with
//   rate = learning_rate * trust * |parameters| / (|gradients| + weight_decay * |parameters|)
// where the run adapts and both norms are above 0, and else the learning rate itself,
//   velocity   = momentum * velocity + rate * (gradients + weight_decay * parameters)
//   parameters = parameters - velocity
void lars_update(const LarsStep& step, const kernels::Runs& runs, std::span<const float> gradients,
                 std::span<float> parameters, std::span<float> velocity,
                 const Kernels& kernels = cpu_kernels());

// Of AdamW and of LAMB.
struct AdamStep {
  double learning_rate = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::int64_t number = 1;  // of this step, counted from 1
};

// AdamW, Adam with decoupled weight decay, in one pass:
//   first  = beta1 * first + (1 - beta1) * gradients
//   second = beta2 * second + (1 - beta2) * gradients * gradients
//   root   = sqrt(second) / sqrt(1 - beta2^number) + epsilon
//   parameters = (1 - learning_rate * weight_decay) * parameters
//                - learning_rate / (1 - beta1^number) * first / root
void adamw_update(const AdamStep& step, const kernels::Runs& runs, std::span<const float> gradients,
                  std::span<float> parameters, std::span<float> first, std::span<float> second,
                  const Kernels& kernels = cpu_kernels());

// LAMB takes two passes, since the rate depends on the norm of a run's whole change. The change is
// not kept in between but computed twice: it costs less than the memory. First both moments as in
// AdamW, and
//   change = first / (1 - beta1^number) / (sqrt(second) / sqrt(1 - beta2^number) + epsilon)
//            + weight_decay * parameters
// then with rate = learning_rate * |parameters| / |change| where the run adapts and both norms are
// above 0, and else the learning rate itself,
//   parameters = parameters - rate * change
void lamb_update(const AdamStep& step, const kernels::Runs& runs, std::span<const float> gradients,
                 std::span<float> parameters, std::span<float> first, std::span<float> second,
                 const Kernels& kernels = cpu_kernels());

// A running average: average = average + take * (values - average).
void ema_update(float take, std::span<const float> values, std::span<float> average,
                const Kernels& kernels = cpu_kernels());

// All elements as one run, in the host's memory.
class OneRun {
 public:
  explicit OneRun(std::size_t elements, double weight_decay = 0, bool adapts = false)
      : run_{.begin = 0,
             .elements = elements,
             .weight_decay = weight_decay,
             .adapts = adapts,
             .first_chunk = 0,
             .chunks = 0} {}
  operator kernels::Runs() const {  // NOLINT(google-explicit-constructor): it stands for them
    return {.runs = &run_, .number = 1};
  }

 private:
  kernels::Run run_;
};

}  // namespace daso
