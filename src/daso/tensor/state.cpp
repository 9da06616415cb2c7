// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/state.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "daso/base/error.h"

namespace daso {
namespace {

const at::Tensor& number_in(const State& state, const std::string& name, at::ScalarType type) {
  const at::Tensor& tensor = tensor_in(state, name);
  require(tensor.numel() == 1 && tensor.scalar_type() == type,
          "'{}' of the saved state should be one {}, it is {}[{}]", name, c10::toString(type),
          c10::toString(tensor.scalar_type()), fmt::join(tensor.sizes(), ", "));
  return tensor;
}

}  // namespace

at::Tensor kept(const at::Tensor& tensor) {
  return tensor.is_cpu() ? tensor.detach().clone() : tensor.detach().cpu();
}

at::Tensor integer(std::int64_t value) { return at::scalar_tensor(value, at::kLong); }
at::Tensor real(double value) { return at::scalar_tensor(value, at::kDouble); }

const at::Tensor& tensor_in(const State& state, const std::string& name) {
  const auto entry = state.find(name);
  require(entry != state.end(), "the saved state has no '{}'; it is of another kind of run", name);
  return entry->second;
}

std::int64_t integer_in(const State& state, const std::string& name) {
  return number_in(state, name, at::kLong).item<std::int64_t>();
}

double real_in(const State& state, const std::string& name) {
  return number_in(state, name, at::kDouble).item<double>();
}

State section(const State& state, const std::string& prefix) {
  State entries;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with(prefix)) entries[name.substr(prefix.size())] = tensor;
  }
  return entries;
}

void add_section(State& state, const std::string& prefix, const State& entries) {
  for (const auto& [name, tensor] : entries) state[prefix + name] = tensor;
}

void restore(const State& state, const std::string& name, const at::Tensor& target) {
  const at::Tensor& saved = tensor_in(state, name);
  require(saved.sizes() == target.sizes() && saved.scalar_type() == target.scalar_type(),
          "'{}' of the saved state is {}[{}], this run has {}[{}]: another model or other ranks",
          name, c10::toString(saved.scalar_type()), fmt::join(saved.sizes(), ", "),
          c10::toString(target.scalar_type()), fmt::join(target.sizes(), ", "));
  const at::NoGradGuard no_grad;
  target.copy_(saved);
}

}  // namespace daso
