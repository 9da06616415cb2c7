// SPDX-License-Identifier: Apache-2.0
#include "daso/data/loader.h"

#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/random.h"
#include "daso/data/batch_maker.h"
#include "daso/data/batch_pool.h"
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

}  // namespace

struct Loader::Body {
  Body(std::shared_ptr<const Dataset> shared_dataset, const LoaderOptions& asked)
      : dataset(std::move(shared_dataset)),
        options(checked(asked, *dataset)),
        batches(batches_of(options.shard)),
        pool(dataset->shape()),
        prefetcher(PrefetchOptions{
            .threads = options.threads, .ahead = options.ahead, .limit = options.limit}) {}

  Batch make(int epoch, const std::vector<std::int64_t>& shard, std::int64_t number,
             const std::atomic<bool>& abandoned) {
    const int examples = options.shard.batch_size;
    BatchFiller filler(*dataset, options.normalisation);
    Batch batch = pool.take(examples);
    for (int i = 0; i < examples && !abandoned; ++i) {
      const std::int64_t place =
          place_of(options.shard, {.batch = number, .rank = options.rank, .example = i});
      const RandomStream random{options.shard.seed, kAugmentation,
                                static_cast<std::uint64_t>(epoch),
                                static_cast<std::uint64_t>(place)};
      filler.fill(batch, i, shard[static_cast<std::size_t>(number * examples + i)], options.augment,
                  random);
    }
    return batch;
  }

  const std::shared_ptr<const Dataset> dataset;
  const LoaderOptions options;
  const std::int64_t batches;
  BatchPool pool;
  Prefetcher prefetcher;  // last: its threads end before the rest goes
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : body_(std::make_unique<Body>(std::move(dataset), options)) {}

Loader::~Loader() = default;

std::int64_t Loader::batches() const { return body_->batches; }

void Loader::start(int epoch, std::int64_t batch) {
  DASO_ASSERT(epoch >= 0);
  Body& body = *body_;
  MakeBatch make = [&body, epoch, shard = shard_of(body.options.shard, epoch, body.options.rank)](
                       std::int64_t number, const std::atomic<bool>& abandoned) {
    return body.make(epoch, shard, number, abandoned);
  };
  body_->prefetcher.start({.name = fmt::format("epoch {}", epoch),
                           .first = batch,
                           .end = body.batches,
                           .make = std::move(make)});
}

Batch Loader::next() { return body_->prefetcher.next(); }

std::int64_t Loader::ready() const { return body_->prefetcher.ready(); }

}  // namespace daso
