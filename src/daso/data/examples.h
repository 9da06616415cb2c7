// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daso/base/random.h"
#include "daso/data/batch.h"

namespace daso {

// One example that a batch is to hold.
struct ExampleDraw {
  std::int64_t index = 0;
  // For what is drawn anew each time that the example is trained with, as augmentations are: it
  // depends on the seed, the epoch and the example's place in it alone. In evaluation it says
  // nothing.
  RandomStream random = RandomStream(0);
};

// Data of one's own that is neither images nor texts (those are Datasets): numbered examples, out
// of which whole batches of any tensors are made. A Loader shuffles and shards them and reads
// ahead, as it does for a Dataset. All functions may be called by several threads at once.
class Examples {
 public:
  virtual ~Examples() = default;

  virtual std::int64_t size() const = 0;
  // In this order: dimension 0 of both tensors counts the examples. The tensors belong to the
  // caller, who may change them.
  virtual Batch read(std::span<const ExampleDraw> draws) const = 0;
  // A few words in which examples differ that are not the same. Examples are shared out by their
  // numbers, so all ranks must have the same ones: a session compares these words.
  virtual std::string description() const { return "no description"; }
};

// What read() gives. Throws ConfigError where it holds another number of examples.
Batch read_checked(const Examples& examples, std::span<const ExampleDraw> draws);

// The easiest case: row i of both tensors is example i. Types and shapes are whatever the module
// and its loss take. Throws ConfigError for tensors that do not count the same examples.
std::shared_ptr<const Examples> tensors(const at::Tensor& inputs, const at::Tensor& labels);

}  // namespace daso
