// SPDX-License-Identifier: Apache-2.0
#include "daso/nets/gpu_pass.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <map>

#include "daso/nets/layers.h"
#include "daso/nets/transformers.h"
#include "daso/tensor/device.h"

namespace daso {
namespace {

// The parameters that a layer multiplies with, or adds to a product: what autocast would cast.
std::vector<at::Tensor*> factors_of(torch::nn::Module& layer) {
  if (auto* found = layer.as<torch::nn::Conv2dImpl>()) return {&found->weight, &found->bias};
  if (auto* found = layer.as<torch::nn::LinearImpl>()) return {&found->weight, &found->bias};
  if (auto* found = layer.as<SelfAttention>()) return found->factors();
  return {};
}

// Weights of convolutions from one order to the other; on a GPU all at once.
void copy_reordered(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                    bool to_last) {
  if (to.empty()) return;
  if (to.front().is_cuda()) return device_module().copy_reordered(to, from, to_last);
  for (std::size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

// Channels_last makes a difference.
bool is_reordered(const at::Tensor& parameter) {
  return parameter.dim() == 4 && !parameter.is_contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace

GpuPass::GpuPass(torch::nn::Module& module, FlatModel& model, at::ScalarType type)
    : model_(model), type_(type), module_(module) {
  std::map<const void*, std::size_t> span_of;  // by tensor
  for (std::size_t i = 0; i < model.parameter_spans().size(); ++i) {
    inputs_.push_back(model.parameter(i));
    span_of[model.parameter(i).unsafeGetTensorImpl()] = i;
  }
  std::map<std::size_t, at::Tensor> copies;  // by span: tied weights have one
  for (const auto& layer : module.modules()) {
    if (auto* norm = layer->as<BatchNorm>()) counters_.push_back(norm->num_batches_tracked);
    if (type == at::kFloat) continue;
    for (at::Tensor* handle : factors_of(*layer)) {
      if (!handle->defined()) continue;
      const auto span = span_of.find(handle->unsafeGetTensorImpl());
      if (span == span_of.end()) continue;  // frozen: left to autocast
      if (!copies.contains(span->second)) {
        copies[span->second] = copy_of(span->second);
        inputs_.push_back(copies[span->second]);
        span_of_copy_.push_back(span->second);
      }
      places_.push_back({handle, *handle, copies[span->second]});
    }
  }
}

GpuPass::~GpuPass() = default;

// Each in memory of its own: libraries want it to begin at a multiple of 16 bytes, and choose other
// algorithms, with other last bits, where it does not.
at::Tensor GpuPass::copy_of(std::size_t span) {
  const at::Tensor parameter = model_.parameter(span).detach();
  const bool reordered = is_reordered(parameter);
  const at::Tensor copy =
      at::empty_like(parameter, at::TensorOptions(type_),
                     reordered ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Preserve);
  Casts& casts = reordered ? reorder_ : casts_;
  casts.from.push_back(parameter);
  casts.to.push_back(copy.detach());
  return copy.requires_grad_();
}

void GpuPass::refresh() {
  const at::NoGradGuard no_grad;
  if (!casts_.to.empty()) at::_foreach_copy_(casts_.to, casts_.from);
  copy_reordered(reorder_.to, reorder_.from, /*to_last=*/true);
}

GpuPass::Use::Use(GpuPass& pass) : pass_(pass) {
  pass_.refresh();
  for (const Place& place : pass_.places_) *place.handle = place.copy;
  set_counting(pass_.module_, false);
}

GpuPass::Use::~Use() {
  for (const Place& place : pass_.places_) *place.handle = place.parameter;
  set_counting(pass_.module_, true);
}

void GpuPass::count_batch() {
  if (counters_.empty()) return;
  const at::NoGradGuard no_grad;
  at::_foreach_add_(counters_, 1);
}

namespace {

// Copies of one kind, which one kernel can do: as lists, since tensors of one element would else be
// of other strides.
struct Copies {
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
};

}  // namespace

void GpuPass::store(const std::vector<at::Tensor>& gradients, bool add) {
  const at::NoGradGuard no_grad;
  const std::size_t spans = model_.parameter_spans().size();
  std::vector<bool> filled(spans, add);
  std::map<at::ScalarType, Copies> alike;
  Copies reordered;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const at::Tensor& gradient = gradients[i];
    if (!gradient.defined()) continue;
    const std::size_t span = i < spans ? i : span_of_copy_[i - spans];
    const at::Tensor& place = model_.parameter(span).grad();
    if (filled[span]) {
      // A copy that shares its parameter with other layers: both have a part.
      for (auto& [type, copies] : alike) {
        if (!copies.to.empty()) at::_foreach_copy_(copies.to, copies.from);
        copies = {};
      }
      copy_reordered(reordered.to, reordered.from, /*to_last=*/false);
      reordered = {};
      place.add_(gradient);
    } else if (gradient.is_contiguous() && place.is_contiguous()) {
      alike[gradient.scalar_type()].to.push_back(place.view({-1}));
      alike[gradient.scalar_type()].from.push_back(gradient.view({-1}));
    } else {
      reordered.to.push_back(place);
      reordered.from.push_back(gradient);
    }
    filled[span] = true;
  }
  for (auto& [type, copies] : alike) {
    if (!copies.to.empty()) at::_foreach_copy_(copies.to, copies.from);
  }
  copy_reordered(reordered.to, reordered.from, /*to_last=*/false);
  for (std::size_t span = 0; span < spans; ++span) {
    if (!filled[span]) model_.parameter(span).mutable_grad().zero_();
  }
}

}  // namespace daso
