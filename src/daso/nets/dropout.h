// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <cstdint>

#include "daso/base/random.h"

namespace daso {

// In training sets each value to 0 with a chance and divides the others by 1 - chance, which keeps
// the mean (Srivastava et al., Dropout, 2014); else gives back what it gets. Draws come from a
// stream of its own, one for each value in the order of the tensor, so they depend neither on
// threads nor on LibTorch's generators, and are the same on every machine.
class Dropout : public torch::nn::Module {
 public:
  explicit Dropout(double chance) : chance_(chance) {}
  at::Tensor forward(const at::Tensor& values);

  void draw_from(const RandomStream& random) { random_ = random; }

 private:
  double chance_;
  RandomStream random_ = RandomStream(0);
};

// One forward pass of one rank.
struct DropoutPass {
  std::uint64_t seed = 0;
  int rank = 0;
  std::int64_t step = 0;
  int part = 0;  // of the step's batch, where several are accumulated
};

// What the dropout layers of a network draw from now on, each its own: by the pass alone, so that a
// run that is resumed goes on with the same draws.
void draw_dropout(torch::nn::Module& network, const DropoutPass& pass);

}  // namespace daso
