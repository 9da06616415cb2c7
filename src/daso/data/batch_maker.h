// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daso/base/random.h"
#include "daso/data/batch.h"
#include "daso/data/dataset.h"
#include "daso/data/loader.h"

// From examples to tensors.
namespace daso {

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

}  // namespace daso
