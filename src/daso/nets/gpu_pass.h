// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <vector>

#include "daso/tensor/flat_model.h"

namespace torch::nn {
class Module;
}

namespace daso {

// What a GPU computes a pass with in half precision, made for all layers at once. Autocast does the
// same tensor by tensor, in hundreds of kernels that are over before they have begun:
//
//   - the weights and biases of convolutions and linear layers in the pass's type, in the order of
//     memory that the GPU's libraries want (channels_last). The flat model keeps the order that it
//     has on the CPU, so that checkpoints, exchanges and moments are the same on all devices;
//   - the counters of batches that BatchNorm keeps.
//
// Whoever computes a gradient asks for that of inputs(), and hands the answer to store().
class GpuPass {
 public:
  // Module and model are borrowed; the model is that of the module. `type` is at::kFloat where
  // nothing is cast: then there are no copies.
  GpuPass(torch::nn::Module& module, FlatModel& model, at::ScalarType type);
  ~GpuPass();

  // The copies become what the parameters are now, and the layers of the module compute with them
  // while this lives. It reads and writes tensors that stay where they are: a graph can hold it.
  class Use {
   public:
    explicit Use(GpuPass& pass);
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();

   private:
    GpuPass& pass_;
  };

  // All that a loss has gradients of: parameters of the flat model, and the copies. Those that it
  // does not reach have none.
  const std::vector<at::Tensor>& inputs() const { return inputs_; }
  // Gradients in that order, undefined where there is none, become the flat model's, or are added
  // to it.
  void store(const std::vector<at::Tensor>& gradients, bool add);

  // To be called after each forward in training.
  void count_batch();

 private:
  // A layer's own handle of a parameter, and what it computes with instead.
  struct Place {
    at::Tensor* handle;
    at::Tensor parameter;
    at::Tensor copy;
  };
  // From parameters to copies.
  struct Casts {
    std::vector<at::Tensor> to;
    std::vector<at::Tensor> from;
  };

  at::Tensor copy_of(std::size_t span);
  void refresh();

  FlatModel& model_;
  const at::ScalarType type_;
  std::vector<at::Tensor> inputs_;         // those of the flat model first, in its order
  std::vector<std::size_t> span_of_copy_;  // of those behind them
  std::vector<Place> places_;
  Casts casts_;
  Casts reorder_;  // to another order of memory
  std::vector<at::Tensor> counters_;
  torch::nn::Module& module_;
};

}  // namespace daso
