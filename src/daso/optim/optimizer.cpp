// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/optim/adamw.h"
#include "daso/optim/ema.h"
#include "daso/optim/layerwise.h"
#include "daso/optim/sgd.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

std::unique_ptr<Optimizer> make_plain(FlatModel& model, const OptimizerOptions& options) {
  if (options.name == "sgd") return std::make_unique<Sgd>(model, options);
  if (options.name == "adamw") return std::make_unique<AdamW>(model, options);
  if (options.name == "lars") return std::make_unique<Lars>(model, options);
  if (options.name == "lamb") return std::make_unique<Lamb>(model, options);
  const std::optional<std::string> meant = nearest(options.name, optimizer_names());
  throw ConfigError(fmt::format("there is no optimizer '{}'; there are {}{}", options.name,
                                join(optimizer_names(), ", "),
                                meant ? fmt::format("; did you mean {}?", *meant) : ""));
}

}  // namespace

std::vector<std::string> optimizer_names() { return {"sgd", "adamw", "lars", "lamb"}; }

void validate(const OptimizerOptions& options) {
  require(std::isfinite(options.weight_decay) && options.weight_decay >= 0,
          "the weight decay must be 0 or more, got {}", options.weight_decay);
  require(options.momentum >= 0 && options.momentum < 1,
          "momentum must be in 0 ... 1, below 1, got {}", options.momentum);
  require(!options.nesterov || options.momentum > 0, "Nesterov's method needs a momentum above 0");
  require(std::isfinite(options.trust) && options.trust > 0,
          "the trust coefficient must be above 0, got {}", options.trust);
  require(options.beta1 >= 0 && options.beta1 < 1, "beta1 must be in 0 ... 1, below 1, got {}",
          options.beta1);
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2 must be in 0 ... 1, below 1, got {}",
          options.beta2);
  // An element that never had a gradient would become 0 / 0 without it.
  require(std::isfinite(options.epsilon) && static_cast<float>(options.epsilon) > 0,
          "epsilon must be above 0 as a float32, got {}", options.epsilon);
}

std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options) {
  std::unique_ptr<Optimizer> plain = make_plain(model, options);
  if (!options.ema) return plain;
  return std::make_unique<WithEma>(model, std::move(plain), *options.ema);
}

at::Tensor MomentOptimizer::add_moment(const std::string& name) {
  const at::Tensor& parameters = model_.parameters();
  moments_.emplace_back(name, large_zeros(parameters.sizes(), parameters.options()));
  return moments_.back().second;
}

std::vector<at::Tensor> MomentOptimizer::moments() const {
  std::vector<at::Tensor> all;
  for (const auto& [moment, tensor] : moments_) all.push_back(tensor);
  return all;
}

State MomentOptimizer::state() const {
  State state;
  state[name_ + ".steps"] = integer(steps_);
  for (const auto& [moment, tensor] : moments_) state[name_ + "." + moment] = kept(tensor);
  return state;
}

void MomentOptimizer::load_state(const State& state) {
  const std::int64_t steps = integer_in(state, name_ + ".steps");
  require(steps >= 0, "'{}.steps' of the saved state must be 0 or more, it is {}", name_, steps);
  for (const auto& [moment, tensor] : moments_) restore(state, name_ + "." + moment, tensor);
  steps_ = steps;
}

}  // namespace daso
