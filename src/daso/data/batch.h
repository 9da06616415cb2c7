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
  // Of raw images alone (raw_images.h), whose inputs are uint8 and stand where they stand in the
  // data: what is to be done with them. int32 [batch, 3]: down, right, mirrored, as in Placement.
  at::Tensor placements = {};
  // float32 [channels, 256], the same for all batches: what a byte of a channel becomes.
  at::Tensor values = {};

  bool is_raw() const { return placements.defined(); }
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

// Of batches that go to a device.
struct BatchForm {
  bool pinned = false;  // in memory that a device copies from quickly; where there is none, in any
  at::Tensor values = {};  // of raw images (Batch::values); undefined: images are inputs
};

Batch empty_batch(const InputShape& shape, std::int64_t examples, const BatchForm& form = {});

// The batch with its tensors in pinned memory, to which they are copied unless they lie there. The
// batch itself where there is no device.
Batch pinned(const Batch& batch);

// Whether nobody else holds the tensor's memory, as a tensor or by a view of it.
bool held_once(const at::Tensor& tensor);

// Fills a batch from one thread, with raw images where it is one of those.
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
  int fill_raw(Batch& batch, std::int64_t position, std::int64_t index, const Placement& placement);
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
  explicit BatchPool(const InputShape& shape, const BatchForm& form = {});

  // Its values are whatever was there.
  Batch take(std::int64_t examples);

 private:
  const InputShape shape_;
  const BatchForm form_;
  std::mutex mutex_;            // guards what follows
  std::vector<Batch> batches_;  // as many as were held at once
};

}  // namespace daso
