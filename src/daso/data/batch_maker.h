// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daso/base/random.h"
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

Placement draw_placement(Augment augment, const ImageShape& shape, RandomStream random);

// Writes the normalised image where it belongs. What comes in at an edge is 0 after normalisation:
// the mean.
void place_image(std::span<const float> image, const ImageShape& shape,
                 const Normalisation& normalisation, const Placement& placement,
                 std::span<float> out);

// Refuses what does not fit the number of channels. An empty one becomes one that changes nothing.
Normalisation completed(const Normalisation& normalisation, int channels);

Batch empty_batch(const ImageShape& shape, std::int64_t examples);

// Fills a batch from one thread.
class BatchFiller {
 public:
  // Both outlive this.
  BatchFiller(const Dataset& dataset, const Normalisation& normalisation);
  // Throws what reading throws, and ConfigError for a class that the dataset does not have.
  void fill(Batch& batch, std::int64_t position, std::int64_t index, const Placement& placement);

 private:
  const Dataset& dataset_;
  const Normalisation& normalisation_;
  ImageShape shape_;
  std::vector<float> image_;
};

}  // namespace daso
