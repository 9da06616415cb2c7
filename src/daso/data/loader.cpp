// SPDX-License-Identifier: Apache-2.0
#include "daso/data/loader.h"

#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/random.h"
#include "daso/data/batch.h"
#include "daso/data/prefetcher.h"
#include "daso/data/raw_images.h"

namespace daso {
namespace {

constexpr std::uint64_t kAugmentation = 5;  // tells this use of the seed from others

void check_shard(const LoaderOptions& options, std::int64_t size) {
  validate(options.shard);
  require(options.shard.examples == size, "the options share out {} examples, the dataset holds {}",
          options.shard.examples, size);
  require(options.rank >= 0 && options.rank < options.shard.ranks,
          "rank {} is not one of the {} ranks that share the data", options.rank,
          options.shard.ranks);
}

LoaderOptions checked(LoaderOptions options, const Dataset& dataset) {
  check_shard(options, dataset.size());
  check_augment(options.augment, dataset);
  options.normalisation = completed(options.normalisation, dataset.shape());
  return options;
}

// Makes the batches. A thread that hangs while it reads keeps it alive.
class Maker {
 public:
  explicit Maker(LoaderOptions options) : options_(std::move(options)) {}
  virtual ~Maker() = default;

  const LoaderOptions& options() const { return options_; }

  // The examples of a batch, out of those that the rank has in the epoch.
  std::vector<ExampleDraw> draws_of(int epoch, const std::vector<std::int64_t>& shard,
                                    std::int64_t number) const {
    const int examples = options_.shard.batch_size;
    std::vector<ExampleDraw> draws;
    draws.reserve(static_cast<std::size_t>(examples));
    for (int i = 0; i < examples; ++i) {
      const std::int64_t place =
          place_of(options_.shard, {.batch = number, .rank = options_.rank, .example = i});
      draws.push_back({shard[static_cast<std::size_t>(number * examples + i)],
                       {options_.shard.seed, kAugmentation, static_cast<std::uint64_t>(epoch),
                        static_cast<std::uint64_t>(place)}});
    }
    return draws;
  }

  virtual Batch make(const std::vector<ExampleDraw>& draws, const std::atomic<bool>& abandoned) = 0;

 private:
  const LoaderOptions options_;
};

class DatasetMaker final : public Maker {
 public:
  DatasetMaker(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
      : Maker(checked(options, *dataset)),
        dataset_(std::move(dataset)),
        pool_(dataset_->shape(),
              {.pinned = options.pinned,
               .values = options.raw ? raw_values(*dataset_, this->options().normalisation)
                                     : at::Tensor()}) {}

  Batch make(const std::vector<ExampleDraw>& draws, const std::atomic<bool>& abandoned) override {
    BatchFiller filler(*dataset_, options().normalisation);
    Batch batch = pool_.take(std::ssize(draws));
    std::int64_t position = 0;
    for (const auto& [index, random] : draws) {
      if (abandoned) break;
      filler.fill(batch, position++, index, options().augment, random);
    }
    return batch;
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  BatchPool pool_;
};

class ExamplesMaker final : public Maker {
 public:
  ExamplesMaker(std::shared_ptr<const Examples> examples, const LoaderOptions& options)
      : Maker(options), examples_(std::move(examples)) {
    check_shard(options, examples_->size());
    require(options.augment == Augment::kNone && options.normalisation.mean.empty(),
            "examples of one's own are neither augmented nor normalised by the loader");
  }

  Batch make(const std::vector<ExampleDraw>& draws,
             const std::atomic<bool>& /*one read*/) override {
    const Batch batch = read_checked(*examples_, draws);
    return options().pinned ? pinned(batch) : batch;
  }

 private:
  const std::shared_ptr<const Examples> examples_;
};

}  // namespace

struct Loader::Body {
  Body(std::shared_ptr<Maker> made, const LoaderOptions& options)
      : maker(std::move(made)),
        batches(batches_of(options.shard)),
        prefetcher(PrefetchOptions{
            .threads = options.threads, .ahead = options.ahead, .limit = options.limit}) {}

  const std::shared_ptr<Maker> maker;
  const std::int64_t batches;
  Prefetcher prefetcher;
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : body_(std::make_unique<Body>(std::make_shared<DatasetMaker>(std::move(dataset), options),
                                   options)) {}

Loader::Loader(std::shared_ptr<const Examples> examples, const LoaderOptions& options)
    : body_(std::make_unique<Body>(std::make_shared<ExamplesMaker>(std::move(examples), options),
                                   options)) {}

Loader::~Loader() = default;

std::int64_t Loader::batches() const { return body_->batches; }

void Loader::start(int epoch, std::int64_t batch) {
  DASO_ASSERT(epoch >= 0);
  const LoaderOptions& options = body_->maker->options();
  MakeBatch make = [maker = body_->maker, epoch,
                    shard = shard_of(options.shard, epoch, options.rank)](
                       std::int64_t number, const std::atomic<bool>& abandoned) {
    return maker->make(maker->draws_of(epoch, shard, number), abandoned);
  };
  body_->prefetcher.start({.name = fmt::format("epoch {}", epoch),
                           .first = batch,
                           .end = body_->batches,
                           .make = std::move(make)});
}

Batch Loader::next() { return body_->prefetcher.next(); }

std::int64_t Loader::ready() const { return body_->prefetcher.ready(); }

}  // namespace daso
