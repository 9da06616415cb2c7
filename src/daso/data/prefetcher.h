// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daso/base/seconds.h"
#include "daso/data/batch.h"

namespace daso {

// Makes one batch. Called by several threads at once, with different numbers. Once the sequence is
// abandoned nobody wants the batch any more, so it may be returned unfinished. Must own all that it
// uses: a call that hangs goes on after the prefetcher is gone.
using MakeBatch = std::function<Batch(std::int64_t number, const std::atomic<bool>& abandoned)>;

// Numbered batches, from `first` to before `end`.
struct BatchSequence {
  std::string name;  // for messages, like "epoch 3"
  std::int64_t first = 0;
  std::int64_t end = 0;
  MakeBatch make;
};

struct PrefetchOptions {
  int threads = 1;  // that make batches
  // Batches that are ready or in work at most; never less than two for each thread, so that one
  // which is done early need not wait for the others.
  int ahead = 2;
  Seconds limit{300};
};

// Makes the batches of a sequence in the background and gives them out in order.
class Prefetcher {
 public:
  // Throws ConfigError for options that cannot be.
  explicit Prefetcher(const PrefetchOptions& options);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  // Abandons what is in work and waits until that is over: the limit or 5 s at most, and not at all
  // where next() has waited in vain. A thread that hangs is left to itself.
  ~Prefetcher();

  // Begins a sequence, whether or not the one before is over.
  void start(BatchSequence sequence);
  // The next one. Throws what making it threw, and again when called again; Error when it is not
  // ready within the limit.
  Batch next();
  // How many could be had without waiting.
  std::int64_t ready() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace daso
