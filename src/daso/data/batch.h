// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "daso/base/random.h"
#include "daso/data/dataset.h"

// From examples of a dataset to the tensors of a batch.
namespace daso {

struct Batch {
  // Images: float32 [batch, channels, height, width]. Texts: int64 [batch, length].
  at::Tensor inputs;
  // Images: int64 [batch], the classes. Texts: int64 [batch, length], the token that follows each.
  at::Tensor labels;
};

// What is drawn anew for an image each time that it is trained with.
enum class Augment {
  kNone,
  kCrop,             // moved by up to 1/8 of the height, like 4 of 32; zeros come in at the edge
  kCropFlip,         // and mirrored half of the time
  kResizedCropFlip,  // for data that draws crops (ImageDataset)
};

// How an image is laid into its batch.
struct Placement {
  int down = 0;   // moved by so many rows; zeros come in at the edge
  int right = 0;  // and so many columns
  bool mirrored = false;
};

// Of kCrop or kCropFlip. Takes what it needs from `random`.
Placement draw_placement(Augment augment, const InputShape& shape, RandomStream& random);

// Writes the normalised image where it belongs. What comes in at an edge is 0 after normalisation:
// the mean.
void place_image(std::span<const float> image, const InputShape& shape,
                 const Normalisation& normalisation, const Placement& placement,
                 std::span<float> out);

// Refuses an augmentation that the dataset cannot have.
void check_augment(Augment augment, const Dataset& dataset);

// Refuses what does not fit the shape. For images an empty one becomes one that changes nothing.
Normalisation completed(const Normalisation& normalisation, const InputShape& shape);

Batch empty_batch(const InputShape& shape, std::int64_t examples);

// Fills a batch from one thread.
class BatchFiller {
 public:
  // Both outlive this.
  BatchFiller(const Dataset& dataset, const Normalisation& normalisation);
  // The example as it is, or with an augmentation drawn from `random`. Throw what reading throws,
  // and ConfigError for a class or a token that the dataset does not have.
  void fill(Batch& batch, std::int64_t position, std::int64_t index);
  void fill(Batch& batch, std::int64_t position, std::int64_t index, Augment augment,
            RandomStream random);

 private:
  void fill_image(Batch& batch, std::int64_t position, std::int64_t index, Augment augment,
                  RandomStream random);
  void fill_text(Batch& batch, std::int64_t position, std::int64_t index);

  const Dataset& dataset_;
  const Normalisation& normalisation_;
  InputShape shape_;
  std::vector<float> image_;
  std::vector<std::int64_t> tokens_;
};

// Batches of one shape whose memory is used again when nobody holds them any more: memory fresh
// from the system is given page by page, which takes as long as filling it with images. Several
// threads may ask at once.
class BatchPool {
 public:
  explicit BatchPool(const InputShape& shape) : shape_(shape) {}

  // Its values are whatever was there.
  Batch take(std::int64_t examples);

 private:
  const InputShape shape_;
  std::mutex mutex_;            // guards what follows
  std::vector<Batch> batches_;  // as many as were held at once
};

}  // namespace daso
