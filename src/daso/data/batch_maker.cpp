// SPDX-License-Identifier: Apache-2.0
#include "daso/data/batch_maker.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"

namespace daso {

Placement draw_placement(Augment augment, const ImageShape& shape, RandomStream random) {
  Placement placement;
  if (augment == Augment::kNone) return placement;
  const int padding = shape.height / 8;
  placement.down = random.around(padding);
  placement.right = random.around(padding);
  placement.mirrored = augment == Augment::kCropFlip && random.below(2) == 1;
  return placement;
}

void place_image(std::span<const float> image, const ImageShape& shape,
                 const Normalisation& normalisation, const Placement& placement,
                 std::span<float> out) {
  auto value = out.begin();
  for (int channel = 0; channel < shape.channels; ++channel) {
    const float mean = normalisation.mean[static_cast<std::size_t>(channel)];
    const float deviation = normalisation.deviation[static_cast<std::size_t>(channel)];
    for (int y = 0; y < shape.height; ++y) {
      const int row = y - placement.down;
      const bool row_exists = row >= 0 && row < shape.height;
      for (int x = 0; x < shape.width; ++x) {
        const int column = (placement.mirrored ? shape.width - 1 - x : x) - placement.right;
        const bool exists = row_exists && column >= 0 && column < shape.width;
        const std::int64_t from =
            (std::int64_t{channel} * shape.height + row) * shape.width + column;
        *value++ = exists ? (image[static_cast<std::size_t>(from)] - mean) / deviation : 0.0F;
      }
    }
  }
}

Normalisation completed(const Normalisation& normalisation, int channels) {
  const auto count = static_cast<std::size_t>(channels);
  if (normalisation.mean.empty() && normalisation.deviation.empty()) {
    return {.mean = std::vector<float>(count, 0.0F), .deviation = std::vector<float>(count, 1.0F)};
  }
  require(normalisation.mean.size() == count && normalisation.deviation.size() == count,
          "normalisation has {} means and {} deviations, the images have {} channels",
          normalisation.mean.size(), normalisation.deviation.size(), channels);
  for (std::size_t i = 0; i < count; ++i) {
    require(std::isfinite(normalisation.mean[i]) && std::isfinite(normalisation.deviation[i]) &&
                normalisation.deviation[i] > 0,
            "normalisation of channel {}: mean {}, deviation {}; the deviation must be above 0", i,
            normalisation.mean[i], normalisation.deviation[i]);
  }
  return normalisation;
}

Batch empty_batch(const ImageShape& shape, std::int64_t examples) {
  return {.inputs = at::empty({examples, shape.channels, shape.height, shape.width}, at::kFloat),
          .labels = at::empty({examples}, at::kLong)};
}

BatchFiller::BatchFiller(const Dataset& dataset, const Normalisation& normalisation)
    : dataset_(dataset),
      normalisation_(normalisation),
      shape_(dataset.shape()),
      image_(static_cast<std::size_t>(shape_.elements())) {}

void BatchFiller::fill(Batch& batch, std::int64_t position, std::int64_t index,
                       const Placement& placement) {
  const int label = dataset_.read(index, image_);
  require(label >= 0 && label < dataset_.classes(),
          "example {} of the dataset has class {}, which is not one of 0 ... {}", index, label,
          dataset_.classes() - 1);
  batch.labels.mutable_data_ptr<std::int64_t>()[position] = label;
  float* const first = batch.inputs.mutable_data_ptr<float>() + position * shape_.elements();
  place_image(image_, shape_, normalisation_, placement, {first, image_.size()});
}

}  // namespace daso
