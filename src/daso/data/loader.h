// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "daso/base/seconds.h"
#include "daso/data/batch.h"
#include "daso/data/dataset.h"
#include "daso/data/examples.h"
#include "daso/data/shard.h"

namespace daso {

// More threads of a rank are a mistake, which systems answer by refusing to make them.
inline constexpr int kMostThreads = 1024;

struct LoaderOptions {
  ShardOptions shard;
  int rank = 0;
  int threads = 1;  // that prepare batches ahead; what they prepare does not depend on their number
  int ahead = 2;    // batches that are ready or in work at most; never less than 2 * threads
  Augment augment = Augment::kNone;
  Normalisation normalisation;  // empty: values as they are
  // Of batches that go to a device (device_feed.h).
  bool pinned = false;  // in pinned memory (BatchForm)
  bool raw = false;     // as raw images (raw_images.h), where the data has them
  Seconds limit{300};   // next() waits so long for a batch and then throws
};

// Prepares the batches of one rank in the background. Randomness of an example comes from (seed,
// epoch, its place in the epoch), so a loader that starts in the middle goes on as if it had not.
class Loader {
 public:
  // Throws ConfigError where the options do not fit each other or the dataset.
  Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options);
  // These are made as they are: neither augmented nor normalised.
  Loader(std::shared_ptr<const Examples> examples, const LoaderOptions& options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  // Waits for the examples that are being read, not for their batches: a few seconds at most. A
  // read that hangs is left to itself, and what it uses stays until it is over.
  ~Loader();

  std::int64_t batches() const;
  // Begins an epoch at a batch, whether or not the one before is over.
  void start(int epoch, std::int64_t batch = 0);
  // The next one, batches() - batch times after start(). Throws what reading it threw, and again
  // when called again; start() makes a fresh start.
  Batch next();
  // How many could be had without waiting.
  std::int64_t ready() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace daso
