// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daso/optim/optimizer.h"
#include "daso/tensor/flat_model.h"

namespace daso {

struct OptimizerOptions {
  std::string name = "sgd";  // of optimizer_names()
  double weight_decay = 0;
  // False: no weight decay for biases and norms (decay.h), which lars and lamb never have.
  bool decay_all = true;
  std::vector<std::string> no_decay;  // nor for these, by the prefixes of their names
  // sgd, lars
  double momentum = 0;
  bool nesterov = false;  // sgd alone
  double trust = 0.001;   // lars alone
  // adamw, lamb
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::optional<double> ema;  // decay of an average of the parameters (ema.h); none: no average
};

// sgd, adamw, lars, lamb
std::vector<std::string> optimizer_names();

// The model is borrowed. Options of other optimizers do not count. Throws ConfigError for an
// unknown name (with the nearest one) and for values that make no sense.
std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options);

}  // namespace daso
