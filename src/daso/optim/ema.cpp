// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/ema.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "daso/base/error.h"
#include "daso/kernels/update.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

void assign(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  to.copy_(from);
}

}  // namespace

double ema_keep(double decay, std::int64_t number) {
  DASO_ASSERT(number >= 1);
  if (number == 1) return 0;
  const auto steps = static_cast<double>(number);
  return std::min(decay, steps / (steps + 9));
}

WithEma::WithEma(FlatModel& model, std::unique_ptr<Optimizer> inner, double decay)
    : model_(model),
      inner_(std::move(inner)),
      decay_(decay),
      average_(large_zeros(model.parameters().sizes(), model.parameters().options())) {
  require(decay > 0 && decay < 1, "the decay of an average must be between 0 and 1, got {}", decay);
}

void WithEma::step(double learning_rate) {
  inner_->step(learning_rate);
  const double keep = ema_keep(decay_, inner_->steps());
  if (keep > 0) {
    ema_update(static_cast<float>(1 - keep), floats(model_.parameters()), floats(average_),
               kernels_of(average_));
  } else {
    assign(average_, model_.parameters());
  }
}

// In fp16 an epoch may be over before the first step that is not skipped.
at::Tensor WithEma::average() const {
  if (steps() == 0) assign(average_, model_.parameters());
  return average_;
}

std::vector<at::Tensor> WithEma::moments() const {
  std::vector<at::Tensor> all = inner_->moments();
  all.push_back(average());
  return all;
}

at::Tensor WithEma::view_of(const at::Tensor& flat, std::size_t span) const {
  const at::Tensor& parameter = model_.parameter(span);
  return flat.as_strided(parameter.sizes(), parameter.strides(),
                         flat.storage_offset() + model_.parameter_spans()[span].offset);
}

State WithEma::state() const {
  State state = inner_->state();
  const at::Tensor flat = average();
  const std::vector<FlatSpan>& spans = model_.parameter_spans();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    state[kSection + spans[i].name] = kept(view_of(flat, i));
  }
  return state;
}

void WithEma::load_state(const State& state) {
  inner_->load_state(state);
  const std::vector<FlatSpan>& spans = model_.parameter_spans();
  for (std::size_t i = 0; i < spans.size(); ++i) {
    restore(state, kSection + spans[i].name, view_of(average_, i));
  }
}

Swapped::Swapped(FlatModel& model, const at::Tensor& values)
    : model_(model), kept_(model.parameters().clone()) {
  assign(model_.parameters(), values);
}

Swapped::~Swapped() { assign(model_.parameters(), kept_); }

}  // namespace daso
