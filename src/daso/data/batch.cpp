// SPDX-License-Identifier: Apache-2.0
#include "daso/data/batch.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "daso/base/error.h"
#include "daso/kernels/place_pixels.h"

namespace daso {

Placement draw_placement(Augment augment, const InputShape& shape, RandomStream& random) {
  DASO_ASSERT(augment == Augment::kCrop || augment == Augment::kCropFlip);
  const int padding = shape.height / 8;
  Placement placement;
  placement.down = random.around(padding);
  placement.right = random.around(padding);
  placement.mirrored = augment == Augment::kCropFlip && random.below(2) == 1;
  return placement;
}

void place_image(std::span<const float> image, const InputShape& shape,
                 const Normalisation& normalisation, const Placement& placement,
                 std::span<float> out) {
  const int width = shape.width;
  // Columns of the output that show a column of the image, and that of the first of them.
  const int shift = placement.mirrored ? -placement.right : placement.right;
  const int begin = std::clamp(shift, 0, width);
  const int end = std::clamp(width + shift, 0, width);
  const int first = placement.mirrored ? width - 1 - begin + shift : begin - shift;
  float* to = out.data();
  for (int channel = 0; channel < shape.channels; ++channel) {
    const float mean = normalisation.mean[static_cast<std::size_t>(channel)];
    const float factor = normalisation.factor(static_cast<std::size_t>(channel));
    for (int y = 0; y < shape.height; ++y, to += width) {
      const int row = y - placement.down;
      if (row < 0 || row >= shape.height || begin >= end) {
        std::fill(to, to + width, 0.0F);
        continue;
      }
      std::fill(to, to + begin, 0.0F);
      std::fill(to + end, to + width, 0.0F);
      const float* const from =
          image.data() + (std::int64_t{channel} * shape.height + row) * width + first;
      const int count = end - begin;
      float* const shown = to + begin;
      if (placement.mirrored) {
        for (int x = 0; x < count; ++x) shown[x] = (from[-x] - mean) * factor;
      } else {
        for (int x = 0; x < count; ++x) shown[x] = (from[x] - mean) * factor;
      }
    }
  }
}

void check_augment(Augment augment, const Dataset& dataset) {
  if (augment == Augment::kNone) return;
  require(dataset.shape().kind == InputKind::kImage,
          "--augment is for images, and this data is text: leave it out");
  require(augment != Augment::kResizedCropFlip || as_images(dataset).draws_crops(),
          "--augment resized-crop+flip is for --data images:DIR; take crop+flip");
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

namespace {

// Asks neither LibTorch's hooks, which look for CUDA once and for all, nor for memory.
bool has_device() {
  return c10::impl::hasDeviceGuardImpl(at::kCUDA) &&
         c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount() > 0;
}

at::Tensor pinned(const at::Tensor& tensor) {
  return tensor.defined() && has_device() ? tensor.pin_memory() : tensor;
}

}  // namespace

Batch empty_batch(const InputShape& shape, std::int64_t examples, const BatchForm& form) {
  const bool in_pinned = form.pinned && has_device();
  const auto room = [&](at::IntArrayRef sizes, at::ScalarType type) {
    return at::empty(sizes, at::TensorOptions(type).pinned_memory(in_pinned));
  };
  if (shape.kind == InputKind::kText) {
    return {.inputs = room({examples, shape.width}, at::kLong),
            .labels = room({examples, shape.width}, at::kLong)};
  }
  const bool raw = form.values.defined();
  Batch batch{.inputs = room({examples, shape.channels, shape.height, shape.width},
                             raw ? at::kByte : at::kFloat),
              .labels = room({examples}, at::kLong)};
  if (raw) {
    batch.placements = room({examples, kernels::kPlacementNumbers}, at::kInt);
    batch.values = form.values;
  }
  return batch;
}

Batch pinned(const Batch& batch) {
  return {.inputs = pinned(batch.inputs), .labels = pinned(batch.labels)};
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

namespace {

// Of the example's input.
template <typename Value>
std::span<Value> values_at(const Batch& batch, std::int64_t position) {
  const std::int64_t elements = batch.inputs.numel() / batch.inputs.size(0);
  return {batch.inputs.mutable_data_ptr<Value>() + position * elements,
          static_cast<std::size_t>(elements)};
}

}  // namespace

void BatchFiller::fill_image(Batch& batch, std::int64_t position, std::int64_t index,
                             Augment augment, RandomStream random) {
  const ImageDataset& images = as_images(dataset_);
  const bool moves = augment == Augment::kCrop || augment == Augment::kCropFlip;
  const Placement placement = moves ? draw_placement(augment, shape_, random) : Placement();
  int label = 0;
  if (batch.is_raw()) {
    label = fill_raw(batch, position, index, placement);
  } else if (moves) {
    label = images.read(index, image_);
    place_image(image_, shape_, normalisation_, placement, values_at<float>(batch, position));
  } else {  // nothing moves, so the image can be read to its place
    std::optional<RandomStream> crop;
    if (augment == Augment::kResizedCropFlip) crop = random;
    label = images.read_normalised(index, normalisation_, crop, values_at<float>(batch, position));
  }
  require(label >= 0 && label < dataset_.classes(),
          "example {} of the dataset has class {}, which is not one of 0 ... {}", index, label,
          dataset_.classes() - 1);
  batch.labels.mutable_data_ptr<std::int64_t>()[position] = label;
}

int BatchFiller::fill_raw(Batch& batch, std::int64_t position, std::int64_t index,
                          const Placement& placement) {
  std::int32_t* const numbers =
      batch.placements.mutable_data_ptr<std::int32_t>() + position * kernels::kPlacementNumbers;
  numbers[0] = placement.down;
  numbers[1] = placement.right;
  numbers[2] = placement.mirrored ? 1 : 0;
  return as_images(dataset_).read_bytes(index, values_at<std::uint8_t>(batch, position));
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

// LibTorch reads its counts without order: only who has taken hold and let go comes after those
// that have let go before.
bool held_once(const at::Tensor& tensor) {
  if (!tensor.defined()) return true;
  if (tensor.use_count() != 1 || tensor.storage().use_count() != 1) return false;
  static_cast<void>(at::Tensor(tensor));
  static_cast<void>(c10::Storage(tensor.storage()));
  return true;
}

BatchPool::BatchPool(const InputShape& shape, const BatchForm& form)
    : shape_(shape),
      form_{.pinned = form.pinned, .values = form.pinned ? pinned(form.values) : form.values} {}

Batch BatchPool::take(std::int64_t examples) {
  const std::lock_guard lock(mutex_);
  for (const Batch& batch : batches_) {
    if (batch.labels.size(0) == examples && held_once(batch.inputs) && held_once(batch.labels) &&
        held_once(batch.placements)) {
      return batch;
    }
  }
  return batches_.emplace_back(empty_batch(shape_, examples, form_));
}

}  // namespace daso
