// SPDX-License-Identifier: Apache-2.0
#include "daso/data/evaluation_loader.h"

#include <algorithm>
#include <utility>

#include "daso/base/error.h"
#include "daso/data/batch.h"
#include "daso/data/prefetcher.h"

namespace daso {
namespace {

EvaluationOptions checked(EvaluationOptions options, const Dataset& dataset) {
  require(options.batch_size >= 1, "the batch size must be at least 1, got {}", options.batch_size);
  DASO_ASSERT(options.rank >= 0 && options.rank < options.ranks);
  options.normalisation = completed(options.normalisation, dataset.shape());
  return options;
}

// Makes the batches. A thread that hangs while it reads keeps it alive.
class Maker {
 public:
  Maker(std::shared_ptr<const Dataset> dataset, const EvaluationOptions& options)
      : dataset_(std::move(dataset)),
        options_(checked(options, *dataset_)),
        begin_(dataset_->size() * options_.rank / options_.ranks),
        end_(dataset_->size() * (options_.rank + 1) / options_.ranks),
        pool_(dataset_->shape()) {}

  std::int64_t batches() const {
    return (end_ - begin_ + options_.batch_size - 1) / options_.batch_size;
  }

  Batch make(std::int64_t number, const std::atomic<bool>& abandoned) {
    const std::int64_t first = begin_ + number * options_.batch_size;
    const std::int64_t examples = std::min<std::int64_t>(options_.batch_size, end_ - first);
    BatchFiller filler(*dataset_, options_.normalisation);
    Batch batch = pool_.take(examples);
    for (std::int64_t i = 0; i < examples && !abandoned; ++i) filler.fill(batch, i, first + i);
    return batch;
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const EvaluationOptions options_;
  const std::int64_t begin_;  // the examples of this rank
  const std::int64_t end_;
  BatchPool pool_;
};

}  // namespace

struct EvaluationLoader::Body {
  Body(std::shared_ptr<const Dataset> dataset, const EvaluationOptions& options)
      : maker(std::make_shared<Maker>(std::move(dataset), options)),
        prefetcher(PrefetchOptions{.threads = options.threads, .limit = options.limit}) {}

  const std::shared_ptr<Maker> maker;
  Prefetcher prefetcher;
};

EvaluationLoader::EvaluationLoader(std::shared_ptr<const Dataset> dataset,
                                   const EvaluationOptions& options)
    : body_(std::make_unique<Body>(std::move(dataset), options)) {}

EvaluationLoader::~EvaluationLoader() = default;

std::int64_t EvaluationLoader::batches() const { return body_->maker->batches(); }

void EvaluationLoader::start() {
  body_->prefetcher.start(
      {.name = "the test part",
       .first = 0,
       .end = batches(),
       .make = [maker = body_->maker](std::int64_t number, const std::atomic<bool>& abandoned) {
         return maker->make(number, abandoned);
       }});
}

Batch EvaluationLoader::next() { return body_->prefetcher.next(); }

}  // namespace daso
