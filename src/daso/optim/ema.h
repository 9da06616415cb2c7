// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daso/optim/optimizer.h"
#include "daso/tensor/flat_model.h"

namespace daso {

// How much of the average step `number`, counted from 1, keeps: nothing at the first, so that what
// the parameters were before it does not count; then the decay, or less while the average is young:
//   min(decay, number / (number + 9))
// which is the usual min(decay, (1 + t) / (10 + t)) of the steps t before this one.
double ema_keep(double decay, std::int64_t number);

// Another optimizer that also keeps an exponential moving average of the parameters, updated after
// each of its steps; before the first it is the parameters. The average is one more moment:
// agreements average it over the nodes, and it is saved with the rest. What a merge changes after a
// step is in the average from the next step on.
class WithEma : public Optimizer {
 public:
  // The model is borrowed. The decay is above 0 and below 1. Throws ConfigError.
  WithEma(FlatModel& model, std::unique_ptr<Optimizer> inner, double decay);

  std::string name() const override { return inner_->name(); }
  void step(double learning_rate) override;
  std::vector<at::Tensor> moments() const override;
  std::int64_t steps() const override { return inner_->steps(); }
  void set_steps(std::int64_t steps) override { inner_->set_steps(steps); }
  at::Tensor average() const override;
  // The average by the names of the parameters, with their shapes, under kSection.
  State state() const override;
  void load_state(const State& state) override;

  static constexpr const char* kSection = "ema.";

 private:
  at::Tensor view_of(const at::Tensor& flat, std::size_t span) const;

  FlatModel& model_;
  const std::unique_ptr<Optimizer> inner_;
  const double decay_;
  at::Tensor average_;
};

// The parameters are the given ones as long as this lives.
class Swapped {
 public:
  // The model is borrowed; `values` have the layout of its parameters.
  Swapped(FlatModel& model, const at::Tensor& values);
  ~Swapped();
  Swapped(const Swapped&) = delete;
  Swapped& operator=(const Swapped&) = delete;

 private:
  FlatModel& model_;
  const at::Tensor kept_;
};

}  // namespace daso
