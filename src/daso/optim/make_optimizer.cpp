// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/make_optimizer.h"

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/optim/adamw.h"
#include "daso/optim/ema.h"
#include "daso/optim/lamb.h"
#include "daso/optim/lars.h"
#include "daso/optim/sgd.h"

namespace daso {

std::vector<std::string> optimizer_names() { return {"sgd", "adamw", "lars", "lamb"}; }

namespace {

std::unique_ptr<Optimizer> make_plain(FlatModel& model, const OptimizerOptions& options) {
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
  if (options.name == "lars") {
    return std::make_unique<Lars>(model, LarsOptions{.momentum = options.momentum,
                                                     .trust = options.trust,
                                                     .weight_decay = options.weight_decay,
                                                     .no_decay = options.no_decay});
  }
  if (options.name == "lamb") {
    return std::make_unique<Lamb>(model, LambOptions{.beta1 = options.beta1,
                                                     .beta2 = options.beta2,
                                                     .epsilon = options.epsilon,
                                                     .weight_decay = options.weight_decay,
                                                     .no_decay = options.no_decay});
  }
  const std::optional<std::string> meant = nearest(options.name, optimizer_names());
  throw ConfigError(fmt::format("there is no optimizer '{}'; there are {}{}", options.name,
                                join(optimizer_names(), ", "),
                                meant ? fmt::format("; did you mean {}?", *meant) : ""));
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options) {
  std::unique_ptr<Optimizer> plain = make_plain(model, options);
  if (!options.ema) return plain;
  return std::make_unique<WithEma>(model, std::move(plain), *options.ema);
}

}  // namespace daso
