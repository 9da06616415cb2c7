// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daso/base/random.h"
#include "daso/base/seconds.h"

// Where batches come from.
//
//   open_data("idx:DIR")   a Datasets: the examples to train with and those to test with
//   shard_of               which examples a rank sees in an epoch, in which order (shard.h)
//   BatchFiller            reads these, augments and normalises them into a Batch (batch.h)
//   Prefetcher             threads that do so ahead of the training loop (prefetcher.h)
//   Loader                 all of that for one rank; EvaluationLoader for the test part
//   place_images           makes inputs of raw batches, on a GPU (raw_images.h)
//
// A Dataset knows nothing of ranks, epochs or tensors. Each format is one: images of one size in
// memory (stored_images.h), images that are decoded when they are needed (image_folder.h, with
// image_file.h for the files and resample.h for what becomes of them), texts (text_file.h), and
// synthetic images (synthetic.h). A new one is a row of the table in open_data.cpp.
//
// What an example is depends on the seed, the epoch and its place in it, not on threads, ranks or
// what was read before: a run that is resumed sees what it would have seen.
namespace daso {

enum class InputKind { kImage, kText };

// Of one input. A text has one channel of one row, and its length in tokens is the width.
struct InputShape {
  InputKind kind = InputKind::kImage;
  int channels = 3;
  int height = 32;
  int width = 32;
  std::int64_t elements() const { return std::int64_t{channels} * height * width; }
  bool operator==(const InputShape&) const = default;
};

// "3x32x32", or "64 tokens".
std::string text_of(const InputShape& shape);

// Mean and standard deviation of each channel. A value becomes (value - mean) * factor.
struct Normalisation {
  std::vector<float> mean;
  std::vector<float> deviation;

  float factor(std::size_t channel) const { return 1 / deviation[channel]; }
};

void normalise(const Normalisation& normalisation, std::span<float> image);

// Examples that are counted from 0. Data of your own is an ImageDataset or a TextDataset. All
// functions may be called by several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual InputShape shape() const = 0;
  // Of an image, or the different tokens of a text.
  virtual int classes() const = 0;
  // What the data is known to need; none: it is computed from the data.
  virtual std::optional<Normalisation> normalisation() const { return std::nullopt; }
  // Files that could not be read so far and were skipped, where that was asked for.
  virtual std::int64_t bad_files() const { return 0; }
};

// An input and the number of its class.
class ImageDataset : public Dataset {
 public:
  // Writes the input, channel by channel and row by row, and returns its class. Values lie in
  // 0 ... 1; the loader normalises them.
  virtual int read(std::int64_t index, std::span<float> input) const = 0;

  // What the loader calls: read(), then normalise(). Data that resizes images can do it in passing.
  // With `random` it is a part of the image, drawn from it and mirrored half of the time; never
  // asked of data that does not draw crops.
  virtual int read_normalised(std::int64_t index, const Normalisation& normalisation,
                              const std::optional<RandomStream>& random,
                              std::span<float> input) const;
  virtual bool draws_crops() const { return false; }

  // Whether the values are stored as bytes, each being byte / 255. Then read_bytes() gives these,
  // in the same order; it is never asked of other data.
  virtual bool has_bytes() const { return false; }
  virtual int read_bytes(std::int64_t index, std::span<std::uint8_t> input) const;

  // Of class 0 on, where the data knows them. A model keeps them, and refuses data with others.
  virtual std::vector<std::string> class_names() const { return {}; }
};

// Tokens in order, each to be told from those before it.
class TextDataset : public Dataset {
 public:
  // Writes length + 1 tokens in 0 ... classes - 1: the input, and one more, so that each of its
  // tokens has a next.
  virtual void read(std::int64_t index, std::span<std::int64_t> tokens) const = 0;
  // What token i stands for, as a code point; empty: token i is the byte i.
  virtual std::vector<std::int64_t> vocabulary() const { return {}; }
};

// A dataset as what its shape says it is. Throw std::bad_cast where it is not.
inline const ImageDataset& as_images(const Dataset& dataset) {
  return dynamic_cast<const ImageDataset&>(dataset);
}
inline const TextDataset& as_text(const Dataset& dataset) {
  return dynamic_cast<const TextDataset&>(dataset);
}

struct Datasets {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

// What the dataset is known to need, else of (at most the first 10000 of) its images. A channel
// without any variation has deviation 1. Empty for texts. Throws what reading threw; Error when
// some hundred images are not read within the limit.
Normalisation normalisation_of(const std::shared_ptr<const Dataset>& dataset,
                               Seconds limit = Seconds(300));

// What --data takes: "synthetic", "idx:DIR" and so on (docs/data.md).
std::vector<std::string> data_kinds();

struct DataOptions {
  // Another image of its class takes the place of one that cannot be read.
  bool skip_bad_images = false;
  Seconds limit{300};  // for listing and reading files
};

// Opens one of these. Throws ConfigError naming the key, or the file and what is wrong with it;
// Error when it is not open within the limit. A read that hangs is then left to itself.
Datasets open_data(const std::string& text, const DataOptions& options = {});

}  // namespace daso
