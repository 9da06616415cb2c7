// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/make_optimizer.h"

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/optim/adamw.h"
#include "daso/optim/sgd.h"

namespace daso {

std::vector<std::string> optimizer_names() { return {"sgd", "adamw"}; }

std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options) {
  const DecayOptions decay{.all = options.decay_all, .except = options.no_decay};
  if (options.name == "sgd") {
    return std::make_unique<Sgd>(model, SgdOptions{.momentum = options.momentum,
                                                   .weight_decay = options.weight_decay,
                                                   .nesterov = options.nesterov,
                                                   .decay = decay});
  }
  if (options.name == "adamw") {
    return std::make_unique<AdamW>(model, AdamwOptions{.beta1 = options.beta1,
                                                       .beta2 = options.beta2,
                                                       .epsilon = options.epsilon,
                                                       .weight_decay = options.weight_decay,
                                                       .decay = decay});
  }
  const std::optional<std::string> meant = nearest(options.name, optimizer_names());
  throw ConfigError(fmt::format("there is no optimizer '{}'; there are {}{}", options.name,
                                join(optimizer_names(), ", "),
                                meant ? fmt::format("; did you mean {}?", *meant) : ""));
}

}  // namespace daso
