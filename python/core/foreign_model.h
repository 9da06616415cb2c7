// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daso/optim/optimizer.h"

namespace daso::python {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// A module of LibTorch with the parameters and buffers of a Python one, under the same names: the
// tensors are those of Python's module, so what becomes of them here is seen there.
std::shared_ptr<torch::nn::Module> module_of(const NamedTensors& parameters,
                                             const NamedTensors& buffers);

// An optimizer of Python as the library sees it: Python has done the step when step() is called.
class ForeignOptimizer final : public Optimizer {
 public:
  struct Calls {
    std::function<State()> state;
    std::function<void(const State&)> load_state;
    // Those of its tensors that have the shapes of the parameters, laid flat.
    std::function<std::vector<at::Tensor>()> moments;
    std::function<void(std::int64_t)> set_steps;
  };

  ForeignOptimizer(std::string name, Calls calls)
      : name_(std::move(name)), calls_(std::move(calls)) {}

  std::string name() const override { return name_; }
  void step(double) override { ++steps_; }
  std::vector<at::Tensor> moments() const override { return calls_.moments(); }
  std::int64_t steps() const override { return steps_; }
  void set_steps(std::int64_t steps) override;
  State state() const override;
  void load_state(const State& state) override;

 private:
  const std::string name_;
  const Calls calls_;
  std::int64_t steps_ = 0;
};

}  // namespace daso::python
