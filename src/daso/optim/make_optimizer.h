// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daso/model/flat_model.h"
#include "daso/optim/optimizer.h"

namespace daso {

struct OptimizerOptions {
  std::string name = "sgd";  // of optimizer_names()
  double weight_decay = 0;
  bool decay_all = true;              // false: no weight decay for biases and norms (decay.h)
  std::vector<std::string> no_decay;  // nor for these, by the beginnings of their names
  // sgd
  double momentum = 0;
  bool nesterov = false;
  // adamw
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// sgd, adamw
std::vector<std::string> optimizer_names();

// The model is borrowed. Options of the other optimizer do not count. Throws ConfigError for an
// unknown name (with the nearest one) and for values that make no sense.
std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options);

}  // namespace daso
