// SPDX-License-Identifier: Apache-2.0
#include "core/foreign_model.h"

#include "daso/base/text.h"

namespace daso::python {
namespace {

constexpr const char* kSteps = "own.steps";
constexpr const char* kForeign = "own.";

// The submodule that holds a tensor of this name, made where it is not there; `name` becomes the
// last part.
torch::nn::Module& holder_of(torch::nn::Module& root, std::string& name) {
  torch::nn::Module* module = &root;
  std::vector<std::string> parts = split(name, '.');
  name = parts.back();
  parts.pop_back();
  for (const std::string& part : parts) {
    const auto& children = module->named_children();
    const auto* known = children.find(part);
    module = known != nullptr
                 ? known->get()
                 : module->register_module(part, std::make_shared<torch::nn::Module>()).get();
  }
  return *module;
}

}  // namespace

std::shared_ptr<torch::nn::Module> module_of(const NamedTensors& parameters,
                                             const NamedTensors& buffers) {
  auto root = std::make_shared<torch::nn::Module>();
  for (auto [name, tensor] : parameters) {
    torch::nn::Module& holder = holder_of(*root, name);
    holder.register_parameter(name, tensor, tensor.requires_grad());
  }
  for (auto [name, tensor] : buffers) {
    torch::nn::Module& holder = holder_of(*root, name);
    holder.register_buffer(name, tensor);
  }
  return root;
}

void ForeignOptimizer::set_steps(std::int64_t steps) {
  if (steps == steps_) return;
  steps_ = steps;
  calls_.set_steps(steps);
}

State ForeignOptimizer::state() const {
  State state{{kSteps, integer(steps_)}};
  add_section(state, kForeign, calls_.state());
  return state;
}

void ForeignOptimizer::load_state(const State& state) {
  State own = section(state, kForeign);
  steps_ = integer_in(state, kSteps);
  own.erase("steps");
  calls_.load_state(own);
}

}  // namespace daso::python
