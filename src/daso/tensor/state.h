// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <map>
#include <string>

namespace daso {

// What one rank must keep to go on later as if it had not stopped: tensors by name. Numbers are
// tensors of one element, so that a file needs to know one kind of thing.
using State = std::map<std::string, at::Tensor>;

// A copy of a tensor to keep, in memory of the host.
at::Tensor kept(const at::Tensor& tensor);

at::Tensor integer(std::int64_t value);
at::Tensor real(double value);

// Throw ConfigError where the state has no such entry, or one of another kind.
const at::Tensor& tensor_in(const State& state, const std::string& name);
std::int64_t integer_in(const State& state, const std::string& name);
double real_in(const State& state, const std::string& name);
// The entries whose names begin with `prefix`, without it, and the way back.
State section(const State& state, const std::string& prefix);
void add_section(State& state, const std::string& prefix, const State& entries);

// Copies into `target`, which must have the entry's size and type.
void restore(const State& state, const std::string& name, const at::Tensor& target);

}  // namespace daso
