// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

// Tensors of a model, and how they are kept. A FlatModel lays all parameters, gradients and buffers
// of a module into one tensor each, which the optimizers, exchanges and merges above work on
// (large_tensor.h gives them their memory). names.h selects parameters by prefixes of their names.
// A State is what a part of a run needs to go on later (state.h); safetensors.h reads and writes
// files of them, and pytorch_file.h writes such as Python's torch.load takes.
namespace daso {

// Flat tensors are padded with zeros to a multiple of this, and cut at multiples of it.
inline constexpr std::int64_t kFlatBlock = 256;

// Where one tensor of a module lies in a flat tensor.
struct FlatSpan {
  std::string name;  // as the module calls it: "layer1.0.weight"
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};

// A module whose trainable parameters, their gradients and its floating-point buffers are views of
// three contiguous float32 tensors. Packing is then no work: an optimizer step, a merge, an
// exchange is one pass over one tensor.
//
// Layout: tensors in reverse order of registration, about the order in which backward fills them.
// Frozen parameters stay out; a tensor that is registered twice (tied weights) is in once, under
// the name registered first; channels_last tensors keep their memory order. Integer buffers stay
// out.
//
// The module must not exchange the tensors behind our back afterwards: torch::load into it, to()
// with another type, and backward with create_graph do. check() finds that out. Use load() instead.
class FlatModel {
 public:
  // Throws ConfigError for parameters and floating-point buffers that are not float32, or not all
  // on one device, and for a module without trainable parameters.
  explicit FlatModel(std::shared_ptr<torch::nn::Module> module);
  ~FlatModel();

  const at::Tensor& parameters() const { return parameters_.flat; }  // padded
  const at::Tensor& gradients() const { return gradients_; }         // same layout
  const at::Tensor& buffers() const { return buffers_.flat; }        // padded; may be empty

  // Without the padding; in the order of the layout.
  std::int64_t elements() const { return parameters_.elements; }
  const std::vector<FlatSpan>& parameter_spans() const { return parameters_.spans; }
  const std::vector<FlatSpan>& buffer_spans() const { return buffers_.spans; }
  // The module's own tensor for a span, to hang hooks on.
  const at::Tensor& parameter(std::size_t span) const { return parameters_.views[span]; }

  // The module's other tensors: frozen parameters and integer buffers.
  std::vector<at::Tensor> others() const;

  // All of the module's tensors by their names, as load() takes them: frozen and integer ones
  // included, and not copies.
  std::map<std::string, at::Tensor> named_parameters() const;
  std::map<std::string, at::Tensor> named_buffers() const;

  // Zeroes in place; the module's zero_grad() would drop the views.
  void zero_gradients();
  // Where somebody has dropped or replaced a view all the same, as Python's optimizers do: a
  // gradient that lies elsewhere is copied, one that is gone is zero.
  void take_back_gradients();

  // Throws Error naming the first tensor that is no longer a view of the flat ones.
  void check() const;

  // Copies into the views. The names must be those of the module's parameters and buffers, frozen
  // and integer ones included, each exactly once, with its shape; else ConfigError, nothing copied.
  void load(const std::map<std::string, at::Tensor>& tensors);

  const torch::nn::Module& module() const { return *module_; }

 private:
  // Tensors of the module and where their values live now.
  struct Views {
    at::Tensor flat;
    std::int64_t elements = 0;
    std::vector<FlatSpan> spans;
    std::vector<at::Tensor> views;
  };

  static Views flatten(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                       const at::TensorOptions& options);

  std::shared_ptr<torch::nn::Module> module_;
  Views parameters_;
  at::Tensor gradients_;
  Views buffers_;
};

// The span in which an element lies; null in the padding.
const FlatSpan* span_at(const std::vector<FlatSpan>& spans, std::int64_t element);

}  // namespace daso
