// SPDX-License-Identifier: Apache-2.0
#include "nets/known_networks.h"

#include <ATen/ATen.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace daso::test {
namespace {

using Named = torch::OrderedDict<std::string, at::Tensor>;

// In [-1, 1).
at::Tensor numbers(at::IntArrayRef shape, std::int64_t order) {
  const at::Tensor i = at::arange(c10::multiply_integers(shape), at::kLong);
  const at::Tensor integers = (i * i * 31 + i * 17 + order * 101).remainder(2003);
  return (integers.to(at::kDouble) / 1001.5 - 1).reshape(shape);
}

}  // namespace

NetworkOptions options_of(const nlohmann::json& expected) {
  NetworkOptions options{.name = expected["network"],
                         .channels = expected["channels"],
                         .height = expected["height"],
                         .width = expected["width"],
                         .classes = expected["classes"]};
  if (!expected.contains("sizes")) return options;
  const nlohmann::json& sizes = expected["sizes"];
  options.text = true;
  options.transformer = {
      .layers = sizes["layers"], .embedding = sizes["embedding"], .heads = sizes["heads"]};
  return options;
}

std::shared_ptr<Network> seeded(const NetworkOptions& options) {
  at::manual_seed(11);
  return make_network(options);
}

void fill(Network& network) {
  const at::NoGradGuard no_grad;
  const Named parameters = network.named_parameters();
  for (std::size_t order = 0; order < parameters.size(); ++order) {
    const at::Tensor& tensor = parameters[order].value();
    const at::Tensor values = numbers(tensor.sizes(), static_cast<std::int64_t>(order));
    if (tensor.dim() > 1) {
      tensor.copy_(values * std::sqrt(6.0 / static_cast<double>(tensor[0].numel())));
    } else {
      tensor.copy_(values * 0.2 + (parameters[order].key().ends_with("weight") ? 1 : 0));
    }
  }
  const Named buffers = network.named_buffers();
  for (std::size_t order = 0; order < buffers.size(); ++order) {
    const at::Tensor& tensor = buffers[order].value();
    if (tensor.dim() == 0) continue;  // the number of batches
    const at::Tensor values = numbers(tensor.sizes(), static_cast<std::int64_t>(order));
    tensor.copy_(values * 0.3 + (buffers[order].key().ends_with("var") ? 1 : 0));
  }
}

Examples examples_for(const NetworkOptions& options, std::int64_t batch) {
  if (!options.text) {
    return {numbers({batch, options.channels, options.height, options.width}, /*order=*/7),
            at::arange(batch, at::kLong).remainder(options.classes)};
  }
  const at::Tensor i = at::arange(batch * options.width, at::kLong).view({batch, options.width});
  return {(i * i * 31 + i * 17).remainder(options.classes),
          (i * i * 7 + 3).remainder(options.classes)};
}

}  // namespace daso::test
