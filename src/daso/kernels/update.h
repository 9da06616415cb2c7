// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "daso/kernels/kernels.h"

// What a step of an optimizer does to flat parameters, each in one pass over memory; optim/ decides
// on the numbers. Factors are computed in double and rounded to fp32 once; after that each
// operation on an element is rounded to fp32 by itself, with the same bits from every table, so
// ranks that hold equal parameters and gradients stay equal. All spans of a call have the same
// number of elements, any number.
namespace daso {

struct SgdStep {
  float learning_rate = 0;
  float momentum = 0;
  float weight_decay = 0;
  bool nesterov = false;
  bool first = false;  // of the run: the momentum buffer is written and not read
};

// Stochastic gradient descent:
//   d        = gradients + weight_decay * parameters
//   velocity = d                           the first time
//   velocity = momentum * velocity + d     later
//   parameters = parameters - learning_rate * velocity
//   parameters = parameters - learning_rate * (d + momentum * velocity)   with Nesterov's momentum
// Without momentum `velocity` is empty, and d takes its place.
void sgd_update(const SgdStep& step, std::span<const float> gradients, std::span<float> parameters,
                std::span<float> velocity, const Kernels& kernels = cpu_kernels());

struct LarsStep {
  float rate = 0;  // the learning rate times that of this tensor
  float momentum = 0;
  float weight_decay = 0;
};

// LARS on one tensor, once its rate is known:
//   velocity   = momentum * velocity + rate * (gradients + weight_decay * parameters)
//   parameters = parameters - velocity
void lars_update(const LarsStep& step, std::span<const float> gradients,
                 std::span<float> parameters, std::span<float> velocity,
                 const Kernels& kernels = cpu_kernels());

// Of AdamW and of LAMB.
struct AdamStep {
  double learning_rate = 0;  // LAMB: times that of this tensor, in its second pass alone
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  std::int64_t number = 1;  // of this step, counted from 1
};

// AdamW, Adam with decoupled weight decay:
//   first  = beta1 * first + (1 - beta1) * gradients
//   second = beta2 * second + (1 - beta2) * gradients * gradients
//   root   = sqrt(second) / sqrt(1 - beta2^number) + epsilon
//   parameters = (1 - learning_rate * weight_decay) * parameters
//                - learning_rate / (1 - beta1^number) * first / root
void adamw_update(const AdamStep& step, std::span<const float> gradients,
                  std::span<float> parameters, std::span<float> first, std::span<float> second,
                  const Kernels& kernels = cpu_kernels());

// LAMB on one tensor takes two passes, since the rate depends on the norm of the whole change. The
// change is not kept in between but computed twice: it costs less than the memory.
// The first pass, in pieces of any number of elements; both moments as in AdamW, and
//   change = first / (1 - beta1^number) / (sqrt(second) / sqrt(1 - beta2^number) + epsilon)
//            + weight_decay * parameters
void lamb_moments(const AdamStep& step, std::span<const float> gradients,
                  std::span<const float> parameters, std::span<float> first,
                  std::span<float> second, std::span<float> change,
                  const Kernels& kernels = cpu_kernels());

// The second pass, with the same step but for the rate:
//   parameters = parameters - learning_rate * change
void lamb_update(const AdamStep& step, std::span<const float> first, std::span<const float> second,
                 std::span<float> parameters, const Kernels& kernels = cpu_kernels());

// A running average: average = average + take * (values - average).
void ema_update(float take, std::span<const float> values, std::span<float> average,
                const Kernels& kernels = cpu_kernels());

}  // namespace daso
