// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>

#include <cstdint>
#include <functional>

#include "daso/base/random.h"

// The layers that differ from LibTorch's: convolutions as all networks here have them, BatchNorm
// over several ranks, and dropout that can be repeated.
namespace daso {

// Convolutions here have no bias, since BatchNorm follows, and odd kernels with so much padding
// that a stride of 1 keeps the image's size; a stride of 2 halves it, rounded up.
struct ConvolutionShape {
  int from = 0;  // channels
  int to = 0;
  int kernel = 3;
  int stride = 1;
};
torch::nn::Conv2d convolution(const ConvolutionShape& shape);

// Draws the weights of all convolutions in the module as torchvision's networks do: normal with
// variance 2 / (to * kernel * kernel), which keeps the size of gradients from layer to layer
// (He et al., Delving Deep into Rectifiers, 2015, section 2.2). Linear layers and BatchNorm keep
// LibTorch's default.
void initialise_convolutions(const torch::nn::Module& module);

// Adds a tensor up over the ranks that share statistics, in place; the same bits on all.
using SumOverRanks = std::function<void(const at::Tensor& values)>;

// BatchNorm of images as LibTorch has it, by whose names its parts are called. In training its mean
// and variance can be taken over the examples of several ranks.
class BatchNormImpl : public torch::nn::BatchNorm2dImpl {
 public:
  explicit BatchNormImpl(std::int64_t channels);

  at::Tensor forward(const at::Tensor& images);

  void share(SumOverRanks sum) { sum_ = std::move(sum); }
  void set_counting(bool counting) { counts_ = counting; }

 private:
  at::Tensor over_ranks(const at::Tensor& images);

  SumOverRanks sum_;  // empty: over this rank's own examples
  bool counts_ = true;
};
TORCH_MODULE(BatchNorm);

// False: num_batches_tracked of all BatchNorm layers stays as it is, since somebody else counts.
void set_counting(torch::nn::Module& network, bool counting);

// LibTorch's own BatchNorm hands its tensors to cuDNN wherever they begin, which ends the process's
// use of the GPU where that is no multiple of 16 bytes. For a module of a FlatModel on a GPU: throws
// ConfigError that names the first such layer.
void check_own_batch_norms(const torch::nn::Module& module);

// All BatchNorm layers of a network take their statistics over ranks from now on. All of these
// ranks run the same layers in the same order. Returns how many layers that are.
int share_statistics(torch::nn::Module& network, const SumOverRanks& sum);

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

// Which of so many values dropout keeps: the next numbers of the stream that are not below the
// chance. One after the other, or on a device all at once; the same either way.
at::Tensor kept_values(RandomStream& random, std::int64_t values, double chance);
at::Tensor kept_values_at_once(RandomStream& random, std::int64_t values, double chance,
                               at::Device device);

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
