// SPDX-License-Identifier: Apache-2.0
#include "daso/data/loader.h"

#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/random.h"
#include "daso/data/batch.h"
#include "daso/data/prefetcher.h"

namespace daso {
namespace {

constexpr std::uint64_t kAugmentation = 5;  // tells this use of the seed from others

LoaderOptions checked(LoaderOptions options, const Dataset& dataset) {
  validate(options.shard);
  require(options.shard.examples == dataset.size(),
          "the options share out {} examples, the dataset holds {}", options.shard.examples,
          dataset.size());
  require(options.rank >= 0 && options.rank < options.shard.ranks,
          "rank {} is not one of the {} ranks that share the data", options.rank,
          options.shard.ranks);
  check_augment(options.augment, dataset);
  options.normalisation = completed(options.normalisation, dataset.shape());
  return options;
}

// Makes the batches. A thread that hangs while it reads keeps it alive.
class Maker {
 public:
  Maker(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
      : dataset_(std::move(dataset)),
        options_(checked(options, *dataset_)),
        pool_(dataset_->shape()) {}

  const LoaderOptions& options() const { return options_; }

  Batch make(int epoch, const std::vector<std::int64_t>& shard, std::int64_t number,
             const std::atomic<bool>& abandoned) {
    const int examples = options_.shard.batch_size;
    BatchFiller filler(*dataset_, options_.normalisation);
    Batch batch = pool_.take(examples);
    for (int i = 0; i < examples && !abandoned; ++i) {
      const std::int64_t place =
          place_of(options_.shard, {.batch = number, .rank = options_.rank, .example = i});
      const RandomStream random{options_.shard.seed, kAugmentation,
                                static_cast<std::uint64_t>(epoch),
                                static_cast<std::uint64_t>(place)};
      filler.fill(batch, i, shard[static_cast<std::size_t>(number * examples + i)],
                  options_.augment, random);
    }
    return batch;
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const LoaderOptions options_;
  BatchPool pool_;
};

}  // namespace

struct Loader::Body {
  Body(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
      : maker(std::make_shared<Maker>(std::move(dataset), options)),
        batches(batches_of(options.shard)),
        prefetcher(PrefetchOptions{
            .threads = options.threads, .ahead = options.ahead, .limit = options.limit}) {}

  const std::shared_ptr<Maker> maker;
  const std::int64_t batches;
  Prefetcher prefetcher;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : body_(std::make_unique<Body>(std::move(dataset), options)) {}

Loader::~Loader() = default;

std::int64_t Loader::batches() const { return body_->batches; }

void Loader::start(int epoch, std::int64_t batch) {
  DASO_ASSERT(epoch >= 0);
  const LoaderOptions& options = body_->maker->options();
  MakeBatch make = [maker = body_->maker, epoch,
                    shard = shard_of(options.shard, epoch, options.rank)](
                       std::int64_t number, const std::atomic<bool>& abandoned) {
    return maker->make(epoch, shard, number, abandoned);
  };
  body_->prefetcher.start({.name = fmt::format("epoch {}", epoch),
                           .first = batch,
                           .end = body_->batches,
                           .make = std::move(make)});
}

Batch Loader::next() { return body_->prefetcher.next(); }

std::int64_t Loader::ready() const { return body_->prefetcher.ready(); }

}  // namespace daso
