// SPDX-License-Identifier: Apache-2.0
#include "daso/data/raw_images.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "daso/base/error.h"
#include "daso/data/stored_images.h"
#include "daso/kernels/place_pixels.h"

namespace daso {

using kernels::kByteValues;
using kernels::kPlacementNumbers;

at::Tensor raw_values(const Dataset& dataset, const Normalisation& normalisation) {
  if (dataset.shape().kind != InputKind::kImage) return {};
  const ImageDataset& images = as_images(dataset);
  if (!images.has_bytes() || images.draws_crops()) return {};
  const auto channels = static_cast<std::int64_t>(normalisation.mean.size());
  at::Tensor values = at::empty({channels, kByteValues}, at::kFloat);
  auto* to = values.mutable_data_ptr<float>();
  for (std::size_t channel = 0; channel < normalisation.mean.size(); ++channel) {
    const float mean = normalisation.mean[channel];
    const float factor = normalisation.factor(channel);
    for (int byte = 0; byte < kByteValues; ++byte) {
      *to++ = (value_of(static_cast<std::uint8_t>(byte)) - mean) * factor;
    }
  }
  return values;
}

void place_images(const Batch& raw, const at::Tensor& inputs, const Kernels& kernels) {
  const at::Tensor& bytes = raw.inputs;
  DASO_ASSERT(bytes.dim() == 4 && bytes.scalar_type() == at::kByte && bytes.is_contiguous());
  DASO_ASSERT(inputs.sizes() == bytes.sizes() && inputs.scalar_type() == at::kFloat &&
              inputs.is_contiguous());
  DASO_ASSERT(raw.placements.numel() == bytes.size(0) * kPlacementNumbers &&
              raw.placements.scalar_type() == at::kInt && raw.placements.is_contiguous());
  DASO_ASSERT(raw.values.numel() == bytes.size(1) * kByteValues &&
              raw.values.scalar_type() == at::kFloat && raw.values.is_contiguous());
  kernels.place({.bytes = static_cast<const std::byte*>(bytes.const_data_ptr()),
                 .placements = raw.placements.const_data_ptr<std::int32_t>(),
                 .values = raw.values.const_data_ptr<float>(),
                 .inputs = inputs.mutable_data_ptr<float>(),
                 .images = static_cast<std::size_t>(bytes.size(0)),
                 .channels = static_cast<int>(bytes.size(1)),
                 .height = static_cast<int>(bytes.size(2)),
                 .width = static_cast<int>(bytes.size(3))});
}

}  // namespace daso
