// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/flat_model.h"

#include <fmt/ranges.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>

#include "daso/base/error.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;

std::int64_t padded(std::int64_t elements) {
  return (elements + kFlatBlock - 1) / kFlatBlock * kFlatBlock;
}

// Last registered first; what is registered twice, once, under its first name.
Named in_layout_order(const torch::OrderedDict<std::string, at::Tensor>& registered) {
  Named tensors;
  std::set<const void*> seen;
  for (const auto& item : registered) {
    if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second) {
      tensors.emplace_back(item.key(), item.value());
    }
  }
  std::reverse(tensors.begin(), tensors.end());
  return tensors;
}

std::map<std::string, at::Tensor> by_name(
    const torch::OrderedDict<std::string, at::Tensor>& registered) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& item : registered) tensors[item.key()] = item.value();
  return tensors;
}

Named trainable(const torch::nn::Module& module) {
  Named tensors = in_layout_order(module.named_parameters());
  std::erase_if(tensors, [](const auto& entry) { return !entry.second.requires_grad(); });
  return tensors;
}

Named floating_buffers(const torch::nn::Module& module) {
  Named tensors = in_layout_order(module.named_buffers());
  std::erase_if(tensors, [](const auto& entry) { return !entry.second.is_floating_point(); });
  return tensors;
}

void check_kind(const Named& tensors, const char* kind, const at::Device& device) {
  for (const auto& [name, tensor] : tensors) {
    require(tensor.scalar_type() == at::kFloat,
            "{} '{}' is of type {}; flat tensors are float32, convert the module first", kind, name,
            c10::toString(tensor.scalar_type()));
    require(tensor.device() == device, "{} '{}' is on {}, others are on {}; move the module first",
            kind, name, tensor.device().str(), device.str());
  }
}

// Strides that keep the tensor's order in memory and leave no gaps.
std::vector<std::int64_t> dense_strides(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return tensor.strides().vec();
  std::vector<std::int64_t> strides(static_cast<std::size_t>(tensor.dim()));
  std::int64_t step = 1;
  for (std::int64_t dim = tensor.dim() - 1; dim >= 0; --dim) {
    strides[static_cast<std::size_t>(dim)] = step;
    step *= tensor.size(dim);
  }
  return strides;
}

// A tensor over part of the flat one's memory. By set_, not as_strided: autograd must not take it
// for a view, which could not be detached.
at::Tensor view_of(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like) {
  at::Tensor view = at::empty({0}, flat.options());
  return view.set_(flat.storage(), flat.storage_offset() + offset, like.sizes(),
                   dense_strides(like));
}

bool same_place(const at::Tensor& flat, std::int64_t offset, const at::Tensor& tensor) {
  if (!tensor.defined()) return false;
  if (tensor.numel() == 0) return true;
  return tensor.const_data_ptr() == flat.const_data_ptr<float>() + offset;
}

}  // namespace

FlatModel::FlatModel(std::shared_ptr<torch::nn::Module> module) : module_(std::move(module)) {
  const Named parameters = trainable(*module_);
  require(!parameters.empty(), "the module '{}' has no trainable parameter", module_->name());
  const at::Device device = parameters.front().second.device();
  const Named buffers = floating_buffers(*module_);
  check_kind(parameters, "parameter", device);
  check_kind(buffers, "buffer", device);

  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  parameters_ = flatten(parameters, options);
  buffers_ = flatten(buffers, options);
  gradients_ = large_zeros(parameters_.flat.sizes(), options);
  for (std::size_t i = 0; i < parameters_.views.size(); ++i) {
    at::Tensor& parameter = parameters_.views[i];
    parameter.mutable_grad() = view_of(gradients_, parameters_.spans[i].offset, parameter);
  }
}

FlatModel::~FlatModel() = default;

FlatModel::Views FlatModel::flatten(const Named& tensors, const at::TensorOptions& options) {
  Views result;
  for (const auto& [name, tensor] : tensors) {
    result.spans.push_back({name, result.elements, tensor.numel()});
    result.elements += tensor.numel();
  }
  result.flat = large_zeros({padded(result.elements)}, options);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    at::Tensor tensor = tensors[i].second;
    const at::Tensor view = view_of(result.flat, result.spans[i].offset, tensor);
    view.copy_(tensor);
    tensor.set_data(view);
    result.views.push_back(tensor);
  }
  return result;
}

std::vector<at::Tensor> FlatModel::others() const {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : in_layout_order(module_->named_parameters())) {
    if (!tensor.requires_grad()) tensors.push_back(tensor);
  }
  for (const auto& [name, tensor] : in_layout_order(module_->named_buffers())) {
    if (!tensor.is_floating_point()) tensors.push_back(tensor);
  }
  return tensors;
}

std::map<std::string, at::Tensor> FlatModel::named_parameters() const {
  return by_name(module_->named_parameters());
}

std::map<std::string, at::Tensor> FlatModel::named_buffers() const {
  return by_name(module_->named_buffers());
}

void FlatModel::zero_gradients() { gradients_.zero_(); }

void FlatModel::take_back_gradients() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.views.size(); ++i) {
    at::Tensor& parameter = parameters_.views[i];
    const std::int64_t offset = parameters_.spans[i].offset;
    const at::Tensor found = parameter.grad();
    if (same_place(gradients_, offset, found)) continue;
    const at::Tensor view = view_of(gradients_, offset, parameter);
    if (found.defined()) {
      view.copy_(found);
    } else {
      view.zero_();
    }
    parameter.mutable_grad() = view;
  }
}

void FlatModel::check() const {
  const auto fail = [](const char* what, const std::string& name) {
    throw Error(fmt::format(
        "the {} of '{}' is no longer part of the flat tensor: something replaced it since (loading "
        "into the module, converting it, zero_grad(), a backward with create_graph); a step would "
        "train a copy that nobody sees",
        what, name));
  };
  for (std::size_t i = 0; i < parameters_.views.size(); ++i) {
    const FlatSpan& span = parameters_.spans[i];
    const at::Tensor& parameter = parameters_.views[i];
    if (!same_place(parameters_.flat, span.offset, parameter)) fail("value", span.name);
    if (!same_place(gradients_, span.offset, parameter.grad())) fail("gradient", span.name);
  }
  for (std::size_t i = 0; i < buffers_.views.size(); ++i) {
    const FlatSpan& span = buffers_.spans[i];
    if (!same_place(buffers_.flat, span.offset, buffers_.views[i])) fail("value", span.name);
  }
}

void FlatModel::load(const std::map<std::string, at::Tensor>& tensors) {
  std::map<std::string, at::Tensor> own = named_parameters();
  own.merge(named_buffers());
  for (const auto& [name, tensor] : tensors) {
    const auto place = own.find(name);
    require(place != own.end(), "there is no tensor '{}' in the model; it was made for another one",
            name);
    require(place->second.sizes() == tensor.sizes(),
            "tensor '{}' has shape [{}], the model's has [{}]", name,
            fmt::join(tensor.sizes(), ", "), fmt::join(place->second.sizes(), ", "));
  }
  for (const auto& [name, tensor] : own) {
    require(tensors.contains(name), "tensor '{}' of the model is missing", name);
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) own[name].copy_(tensor);
}

const FlatSpan* span_at(const std::vector<FlatSpan>& spans, std::int64_t element) {
  // The first span that ends behind the element; those without elements end where they begin.
  const auto span = std::upper_bound(
      spans.begin(), spans.end(), element,
      [](std::int64_t at, const FlatSpan& one) { return at < one.offset + one.elements; });
  return span == spans.end() ? nullptr : &*span;
}

}  // namespace daso
