// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daso/tensor/flat_model.h"
#include "daso/tensor/state.h"

// This folder turns gradients into better parameters. In the order of a step: the learning rate is
// a pure function of the step (learning_rate.h); gradients.h unscales and clips the gradients; an
// Optimizer changes the flat parameters, in one or two passes of a kernel (kernels/update.h) over
// the runs of elements that it treats alike (runs.h); and where it is asked for, an average of the
// parameters follows (ema.h).
//
// Ranks that hold the same parameters and gradients hold the same parameters after the step, to the
// last bit: nothing here depends on the processor, on threads or on time. What an optimizer
// remembers besides its parameters are flat tensors of their layout, its moments: an agreement
// averages them over the nodes, and a checkpoint saves them.
namespace daso {

// Of all optimizers; each reads what is its own.
struct OptimizerOptions {
  std::string name = "sgd";  // for make_optimizer(), one of optimizer_names()
  double weight_decay = 0;
  // False: no weight decay for biases and norms (runs.h), which lars and lamb never have.
  bool decay_all = true;
  std::vector<std::string> no_decay;  // nor for these, by the prefixes of their names (names.h)
  // sgd, lars
  double momentum = 0;
  bool nesterov = false;  // sgd alone
  double trust = 0.001;   // lars alone: how far a step goes, as a part of a tensor's norm
  // adamw, lamb
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::optional<double> ema;  // decay of an average of the parameters (ema.h); none: no average
};

// Throws ConfigError for a number that makes no sense in any optimizer.
void validate(const OptimizerOptions& options);

// Turns the flat gradients of a FlatModel into a change of its flat parameters, in place.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  virtual std::string name() const = 0;  // "sgd"
  virtual void step(double learning_rate) = 0;

  // The state that an agreement averages: flat tensors with the layout of the parameters.
  virtual std::vector<at::Tensor> moments() const = 0;
  // Steps done, which an agreement makes equal.
  virtual std::int64_t steps() const = 0;
  virtual void set_steps(std::int64_t steps) = 0;
  // The averaged parameters, where the optimizer keeps an average (ema.h); else undefined. It is
  // one of the moments.
  virtual at::Tensor average() const { return {}; }

  virtual State state() const = 0;
  virtual void load_state(const State& state) = 0;
};

// An optimizer that counts its steps and adds its moments when it is made; what is left to write is
// step(), which raises steps_.
class MomentOptimizer : public Optimizer {
 public:
  std::string name() const override { return name_; }
  std::vector<at::Tensor> moments() const override;
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override { steps_ = steps; }
  // By both names: "sgd.steps", "sgd.velocity".
  State state() const override;
  void load_state(const State& state) override;

 protected:
  // The model is borrowed.
  MomentOptimizer(FlatModel& model, std::string name) : model_(model), name_(std::move(name)) {}

  // Zeros, with the layout of the parameters.
  at::Tensor add_moment(const std::string& name);

  FlatModel& model_;
  std::int64_t steps_ = 0;

 private:
  const std::string name_;
  std::vector<std::pair<std::string, at::Tensor>> moments_;
};

// sgd, adamw, lars, lamb
std::vector<std::string> optimizer_names();

// The model is borrowed. Throws ConfigError for an unknown name (with the nearest one) and for
// values that make no sense.
std::unique_ptr<Optimizer> make_optimizer(FlatModel& model, const OptimizerOptions& options);

}  // namespace daso
