// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <span>
#include <vector>

#include "daso/kernels/wire.h"
#include "daso/policy/exchange_options.h"

namespace daso::test {

using Floats = std::vector<float>;

// The exchanges of all nodes in one place, as if one rank owned everything: the arithmetic of
// merge.h, which has golden cases of its own, without pieces, slices or ranks.
class Together {
 public:
  Together(std::vector<float> weights, const Floats& start, const ExchangeOptions& options);

  void move(std::size_t node, const at::Tensor& by) { add(parameters_[node], by); }
  void start(std::int64_t exchange);
  void merge();
  // Those that are left: the first so many nodes, with these weights. Rests are cleared.
  void keep_first(const std::vector<float>& weights);
  // What an agreement makes of it: m = w_0 x_0 + w_1 x_1 + ..., then the rest.
  Floats agreed() const;
  const Floats& parameters(std::size_t node) const { return parameters_[node]; }
  const Floats& anchor() const { return anchor_; }

  static void add(std::span<float> to, const at::Tensor& by);

 private:
  std::vector<float> weights_;
  Wire wire_;
  std::uint64_t seed_;
  std::vector<Floats> parameters_;
  Floats anchor_;
  Floats residual_;
  std::vector<std::vector<std::byte>> sent_;
  std::vector<std::byte> back_;
};

// What a node learned in a round, half of it before the merge is due.
at::Tensor progress(std::int64_t node, std::int64_t round, std::int64_t elements);

}  // namespace daso::test
