// SPDX-License-Identifier: Apache-2.0
#include "daso/data/evaluation_loader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/data/batch.h"
#include "daso/data/prefetcher.h"
#include "daso/data/raw_images.h"

namespace daso {
namespace {

void check(const EvaluationOptions& options) {
  require(options.batch_size >= 1, "the batch size must be at least 1, got {}", options.batch_size);
  DASO_ASSERT(options.rank >= 0 && options.rank < options.ranks);
}

// Makes the batches. A thread that hangs while it reads keeps it alive.
class Reader {
 public:
  Reader(std::int64_t size, const EvaluationOptions& options)
      : batch_size_(options.batch_size),
        begin_(size * options.rank / options.ranks),
        end_(size * (options.rank + 1) / options.ranks) {}
  virtual ~Reader() = default;

  std::int64_t batches() const { return (end_ - begin_ + batch_size_ - 1) / batch_size_; }

  Batch make(std::int64_t number, const std::atomic<bool>& abandoned) {
    const std::int64_t first = begin_ + number * batch_size_;
    return read(first, std::min(first + batch_size_, end_), abandoned);
  }

 private:
  virtual Batch read(std::int64_t first, std::int64_t end, const std::atomic<bool>& abandoned) = 0;

  const std::int64_t batch_size_;
  const std::int64_t begin_;  // the examples of this rank
  const std::int64_t end_;
};

class DatasetReader final : public Reader {
 public:
  DatasetReader(std::shared_ptr<const Dataset> dataset, const EvaluationOptions& options)
      : Reader(dataset->size(), options),
        dataset_(std::move(dataset)),
        normalisation_(completed(options.normalisation, dataset_->shape())),
        pool_(dataset_->shape(),
              {.pinned = options.pinned,
               .values = options.raw ? raw_values(*dataset_, normalisation_) : at::Tensor()}) {}

 private:
  Batch read(std::int64_t first, std::int64_t end, const std::atomic<bool>& abandoned) override {
    BatchFiller filler(*dataset_, normalisation_);
    Batch batch = pool_.take(end - first);
    for (std::int64_t i = first; i < end && !abandoned; ++i) filler.fill(batch, i - first, i);
    return batch;
  }

  const std::shared_ptr<const Dataset> dataset_;
  const Normalisation normalisation_;
  BatchPool pool_;
};

class ExamplesReader final : public Reader {
 public:
  ExamplesReader(std::shared_ptr<const Examples> examples, const EvaluationOptions& options)
      : Reader(examples->size(), options),
        examples_(std::move(examples)),
        pinned_(options.pinned) {}

 private:
  Batch read(std::int64_t first, std::int64_t end, const std::atomic<bool>& /*one read*/) override {
    std::vector<ExampleDraw> draws;
    for (std::int64_t i = first; i < end; ++i) draws.push_back({.index = i});
    const Batch batch = read_checked(*examples_, draws);
    return pinned_ ? pinned(batch) : batch;
  }

  const std::shared_ptr<const Examples> examples_;
  const bool pinned_;
};

template <typename Made, typename Data>
std::shared_ptr<Reader> make_reader(std::shared_ptr<const Data> data,
                                    const EvaluationOptions& options) {
  check(options);
  return std::make_shared<Made>(std::move(data), options);
}

}  // namespace

struct EvaluationLoader::Body {
  Body(std::shared_ptr<Reader> made, const EvaluationOptions& options)
      : reader(std::move(made)),
        prefetcher(PrefetchOptions{.threads = options.threads, .limit = options.limit}) {}

  const std::shared_ptr<Reader> reader;
  Prefetcher prefetcher;
};

EvaluationLoader::EvaluationLoader(std::shared_ptr<const Dataset> dataset,
                                   const EvaluationOptions& options)
    : body_(std::make_unique<Body>(make_reader<DatasetReader>(std::move(dataset), options),
                                   options)) {}

EvaluationLoader::EvaluationLoader(std::shared_ptr<const Examples> examples,
                                   const EvaluationOptions& options)
    : body_(std::make_unique<Body>(make_reader<ExamplesReader>(std::move(examples), options),
                                   options)) {}

EvaluationLoader::~EvaluationLoader() = default;

std::int64_t EvaluationLoader::batches() const { return body_->reader->batches(); }

void EvaluationLoader::start() {
  body_->prefetcher.start(
      {.name = "the test part",
       .first = 0,
       .end = batches(),
       .make = [reader = body_->reader](std::int64_t number, const std::atomic<bool>& abandoned) {
         return reader->make(number, abandoned);
       }});
}

Batch EvaluationLoader::next() { return body_->prefetcher.next(); }

std::int64_t EvaluationLoader::ready() const { return body_->prefetcher.ready(); }

}  // namespace daso
