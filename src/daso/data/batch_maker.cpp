// SPDX-License-Identifier: Apache-2.0
#include "daso/data/batch_maker.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "daso/base/error.h"

namespace daso {

Placement draw_placement(Augment augment, const InputShape& shape, RandomStream& random) {
  Placement placement;
  if (augment == Augment::kNone) return placement;
  const int padding = shape.height / 8;
  placement.down = random.around(padding);
  placement.right = random.around(padding);
  placement.mirrored = augment == Augment::kCropFlip && random.below(2) == 1;
  return placement;
}

void place_image(std::span<const float> image, const InputShape& shape,
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

void check_augment(Augment augment, const Dataset& dataset) {
  require(augment == Augment::kNone || dataset.shape().kind == InputKind::kImage,
          "--augment is for images, and this data is text: leave it out");
}

Normalisation completed(const Normalisation& normalisation, const InputShape& shape) {
  const bool empty = normalisation.mean.empty() && normalisation.deviation.empty();
  if (shape.kind == InputKind::kText) {
    require(empty, "a normalisation is for images, and this data is text");
    return {};
  }
  const auto count = static_cast<std::size_t>(shape.channels);
  if (empty) {
    return {.mean = std::vector<float>(count, 0.0F), .deviation = std::vector<float>(count, 1.0F)};
  }
  require(normalisation.mean.size() == count && normalisation.deviation.size() == count,
          "normalisation has {} means and {} deviations, the images have {} channels",
          normalisation.mean.size(), normalisation.deviation.size(), shape.channels);
  for (std::size_t i = 0; i < count; ++i) {
    require(std::isfinite(normalisation.mean[i]) && std::isfinite(normalisation.deviation[i]) &&
                normalisation.deviation[i] > 0,
            "normalisation of channel {}: mean {}, deviation {}; the deviation must be above 0", i,
            normalisation.mean[i], normalisation.deviation[i]);
  }
  return normalisation;
}

Batch empty_batch(const InputShape& shape, std::int64_t examples) {
  if (shape.kind == InputKind::kText) {
    return {.inputs = at::empty({examples, shape.width}, at::kLong),
            .labels = at::empty({examples, shape.width}, at::kLong)};
  }
  return {.inputs = at::empty({examples, shape.channels, shape.height, shape.width}, at::kFloat),
          .labels = at::empty({examples}, at::kLong)};
}

BatchFiller::BatchFiller(const Dataset& dataset, const Normalisation& normalisation)
    : dataset_(dataset), normalisation_(normalisation), shape_(dataset.shape()) {
  const auto elements = static_cast<std::size_t>(shape_.elements());
  if (shape_.kind == InputKind::kText) {
    tokens_.resize(elements + 1);
  } else {
    image_.resize(elements);
  }
}

void BatchFiller::fill(Batch& batch, std::int64_t position, std::int64_t index) {
  fill(batch, position, index, Augment::kNone, RandomStream(0));
}

void BatchFiller::fill(Batch& batch, std::int64_t position, std::int64_t index, Augment augment,
                       RandomStream random) {
  if (shape_.kind == InputKind::kText) return fill_text(batch, position, index);
  fill_image(batch, position, index, augment, random);
}

void BatchFiller::fill_image(Batch& batch, std::int64_t position, std::int64_t index,
                             Augment augment, RandomStream random) {
  const Placement placement = draw_placement(augment, shape_, random);
  const int label = as_images(dataset_).read(index, image_);
  require(label >= 0 && label < dataset_.classes(),
          "example {} of the dataset has class {}, which is not one of 0 ... {}", index, label,
          dataset_.classes() - 1);
  batch.labels.mutable_data_ptr<std::int64_t>()[position] = label;
  float* const first = batch.inputs.mutable_data_ptr<float>() + position * shape_.elements();
  place_image(image_, shape_, normalisation_, placement, {first, image_.size()});
}

void BatchFiller::fill_text(Batch& batch, std::int64_t position, std::int64_t index) {
  as_text(dataset_).read(index, tokens_);
  for (const std::int64_t token : tokens_) {
    require(token >= 0 && token < dataset_.classes(),
            "example {} of the dataset has token {}, which is not one of 0 ... {}", index, token,
            dataset_.classes() - 1);
  }
  const std::int64_t first = position * shape_.width;
  std::copy(tokens_.begin(), tokens_.end() - 1,
            batch.inputs.mutable_data_ptr<std::int64_t>() + first);
  std::copy(tokens_.begin() + 1, tokens_.end(),
            batch.labels.mutable_data_ptr<std::int64_t>() + first);
}

}  // namespace daso
