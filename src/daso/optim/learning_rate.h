// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "daso/optim/stall.h"

// The learning rate as a function of the step, so that one can look ahead.
namespace daso {

// Of a step of the run, counted from 0.
using LearningRate = std::function<double(std::int64_t step)>;

// What the rate does after its warm-up.
enum class RateKind {
  kCosine,      // falls as half a cosine to `end`
  kStep,        // times gamma at each of the drops
  kPolynomial,  // falls as (1 - done)^power to `end`
  kConstant,    // stays at the peak
  kPlateau      // stays too; times gamma whenever the training loss has stalled (RateFactor)
};

// What --lr-schedule takes: cosine, step, polynomial, constant, plateau.
std::vector<std::string> rate_kind_names();
// The name of a kind, and the kind of a name that is in the list.
std::string name_of(RateKind kind);
RateKind rate_kind_of(const std::string& name);

struct LearningRateOptions {
  RateKind kind = RateKind::kCosine;
  double peak = 0.1;
  double start = 0;                 // where the warm-up begins, 0 ... peak
  std::int64_t warmup_steps = 1;    // W: mostly the steps of one epoch
  std::int64_t steps = 1;           // T: of the run
  double end = 0.01;                // kCosine, kPolynomial: where they end, as a part of the peak
  double power = 2;                 // kPolynomial: above 0, at most 1000
  double gamma = 0.1;               // kStep, kPlateau: each fall is by this factor
  std::vector<std::int64_t> drops;  // kStep: steps of the run, in their order
  StallOptions stall{.patience = 2, .threshold = 0.01};  // kPlateau
};

// Throws ConfigError.
void validate(const LearningRateOptions& options);

// start + (peak - start) (step + 1) / W before W: the peak is reached exactly, at the last step of
// the warm-up, and never exceeded. After it, with done = (step - W) / (T - W), at most 1:
//   cosine      peak (1 - (1 - end) (1 - cos(pi done)) / 2)
//   polynomial  peak (end + (1 - end) (1 - done)^power)
//   step        peak gamma^(drops at this step or before)
//   constant    peak; plateau as well, the rest of it is a RateFactor
// The same bits on every machine, or nodes would count other steps to the next exchange.
double learning_rate(const LearningRateOptions& options, std::int64_t step);

// The same as a function. Throws ConfigError.
LearningRate rate_of(const LearningRateOptions& options);

// What a run has made of the rate by its losses: kPlateau multiplies by it, and changes it at the
// end of an epoch alone. It is 1 for the other kinds.
struct RateFactor {
  double value = 1;
  StallState stall;
  bool operator==(const RateFactor&) const = default;
};

// Takes the training loss of one more epoch, as PyTorch's ReduceLROnPlateau with mode min.
void after_epoch(const LearningRateOptions& options, RateFactor& factor, double loss);

struct Peak {
  double rate = 0;
  std::int64_t step = 0;  // the first that has it
};

// The highest rate of the first `steps` steps, which are at least 1.
Peak peak_of(const LearningRate& rate, std::int64_t steps);

}  // namespace daso
