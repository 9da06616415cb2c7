// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "daso/base/seconds.h"
#include "daso/data/batch.h"
#include "daso/data/dataset.h"
#include "daso/data/examples.h"

namespace daso {

struct EvaluationOptions {
  int batch_size = 256;  // at most
  int rank = 0;
  int ranks = 1;
  int threads = 1;              // that prepare batches ahead
  Normalisation normalisation;  // empty: values as they are
  // Of batches that go to a device (device_feed.h).
  bool pinned = false;  // in pinned memory (BatchForm)
  bool raw = false;     // as raw images (raw_images.h), where the data has them
  Seconds limit{300};   // next() waits so long for a batch and then throws
};

// The examples of a rank's part of a dataset in order, without augmentation. Every example is in
// exactly one rank's part. Batches are prepared in the background, a few at a time.
class EvaluationLoader {
 public:
  // Throws ConfigError where the options do not fit the dataset.
  EvaluationLoader(std::shared_ptr<const Dataset> dataset, const EvaluationOptions& options);
  EvaluationLoader(std::shared_ptr<const Examples> examples, const EvaluationOptions& options);
  EvaluationLoader(const EvaluationLoader&) = delete;
  EvaluationLoader& operator=(const EvaluationLoader&) = delete;
  // Waits for the examples that are being read, as a Loader does.
  ~EvaluationLoader();

  // 0 where there are more ranks than examples.
  std::int64_t batches() const;
  // Begins the part from its beginning; any number of times.
  void start();
  // The next one, batches() times after start(). Throws what reading it threw.
  Batch next();
  // How many could be had without waiting.
  std::int64_t ready() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace daso
