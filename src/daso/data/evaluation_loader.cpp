// SPDX-License-Identifier: Apache-2.0
#include "daso/data/evaluation_loader.h"

#include <algorithm>
#include <utility>

#include "daso/base/error.h"
#include "daso/data/batch_maker.h"
#include "daso/data/batch_pool.h"
#include "daso/data/prefetcher.h"

namespace daso {
namespace {

EvaluationOptions checked(EvaluationOptions options, const Dataset& dataset) {
  require(options.batch_size >= 1, "the batch size must be at least 1, got {}", options.batch_size);
  DASO_ASSERT(options.rank >= 0 && options.rank < options.ranks);
  options.normalisation = completed(options.normalisation, dataset.shape());
  return options;
}

}  // namespace

struct EvaluationLoader::Body {
  Body(std::shared_ptr<const Dataset> shared_dataset, const EvaluationOptions& asked)
      : dataset(std::move(shared_dataset)),
        options(checked(asked, *dataset)),
        begin(dataset->size() * options.rank / options.ranks),
        end(dataset->size() * (options.rank + 1) / options.ranks),
        batches((end - begin + options.batch_size - 1) / options.batch_size),
        pool(dataset->shape()),
        prefetcher(PrefetchOptions{.threads = options.threads, .limit = options.limit}) {}

  Batch make(std::int64_t number, const std::atomic<bool>& abandoned) {
    const std::int64_t first = begin + number * options.batch_size;
    const std::int64_t examples = std::min<std::int64_t>(options.batch_size, end - first);
    BatchFiller filler(*dataset, options.normalisation);
    Batch batch = pool.take(examples);
    for (std::int64_t i = 0; i < examples && !abandoned; ++i) filler.fill(batch, i, first + i);
    return batch;
  }

  const std::shared_ptr<const Dataset> dataset;
  const EvaluationOptions options;
  const std::int64_t begin;  // the examples of this rank
  const std::int64_t end;
  const std::int64_t batches;
  BatchPool pool;
  Prefetcher prefetcher;  // last: its threads end before the rest goes
};

EvaluationLoader::EvaluationLoader(std::shared_ptr<const Dataset> dataset,
                                   const EvaluationOptions& options)
    : body_(std::make_unique<Body>(std::move(dataset), options)) {}

EvaluationLoader::~EvaluationLoader() = default;

std::int64_t EvaluationLoader::batches() const { return body_->batches; }

void EvaluationLoader::start() {
  Body& body = *body_;
  body_->prefetcher.start(
      {.name = "the test part",
       .first = 0,
       .end = body.batches,
       .make = [&body](std::int64_t number, const std::atomic<bool>& abandoned) {
         return body.make(number, abandoned);
       }});
}

Batch EvaluationLoader::next() { return body_->prefetcher.next(); }

}  // namespace daso
