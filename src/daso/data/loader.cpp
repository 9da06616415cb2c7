// SPDX-License-Identifier: Apache-2.0
#include "daso/data/loader.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/random.h"
#include "daso/data/batch_maker.h"

namespace daso {
namespace {

constexpr std::uint64_t kAugmentation = 5;  // tells this use of the seed from others

// What threads need to know of one start().
struct Epoch {
  int number = 0;
  std::vector<std::int64_t> shard;
  std::atomic<bool> abandoned = false;  // nobody wants its batches any more
};

struct Prepared {
  Batch batch;
  std::exception_ptr failure;
};

LoaderOptions checked(LoaderOptions options, const Dataset& dataset) {
  validate(options.shard);
  require(options.shard.examples == dataset.size(),
          "the options share out {} examples, the dataset holds {}", options.shard.examples,
          dataset.size());
  require(options.rank >= 0 && options.rank < options.shard.ranks,
          "rank {} is not one of the {} ranks that share the data", options.rank,
          options.shard.ranks);
  require(options.threads >= 1, "a loader needs at least 1 thread, got {}", options.threads);
  require(options.ahead >= 1, "a loader prepares at least 1 batch ahead, got {}", options.ahead);
  options.normalisation = completed(options.normalisation, dataset.shape().channels);
  return options;
}

}  // namespace

struct Loader::Body {
  Body(std::shared_ptr<const Dataset> shared_dataset, const LoaderOptions& asked)
      : dataset(std::move(shared_dataset)),
        options(checked(asked, *dataset)),
        batches(batches_of(options.shard)),
        window(std::max(options.ahead, options.threads)) {
    for (int i = 0; i < options.threads; ++i) {
      threads.emplace_back([this](const std::stop_token& stop) { work(stop); });
      ::pthread_setname_np(threads.back().native_handle(), "daso loader");
    }
  }

  ~Body() {
    if (epoch) epoch->abandoned = true;
    for (std::jthread& thread : threads) thread.request_stop();  // all at once, then joined
  }

  bool batch_is_due() const { return epoch && unbegun < batches && unbegun < untaken + window; }

  void work(const std::stop_token& stop) {
    BatchFiller filler(*dataset, options.normalisation);
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [this] { return batch_is_due(); }) && !stop.stop_requested()) {
      const std::shared_ptr<const Epoch> mine = epoch;
      const std::int64_t number = unbegun++;
      lock.unlock();
      Prepared done = prepare(*mine, number, filler);
      lock.lock();
      if (mine == epoch) prepared.emplace(number, std::move(done));
      changed.notify_all();
    }
  }

  Prepared prepare(const Epoch& from, std::int64_t number, BatchFiller& filler) const {
    Prepared done;
    try {
      const int examples = options.shard.batch_size;
      done.batch = empty_batch(dataset->shape(), examples);
      for (int i = 0; i < examples && !from.abandoned; ++i) {
        const std::int64_t place =
            place_of(options.shard, {.batch = number, .rank = options.rank, .example = i});
        const RandomStream random{options.shard.seed, kAugmentation,
                                  static_cast<std::uint64_t>(from.number),
                                  static_cast<std::uint64_t>(place)};
        filler.fill(done.batch, i, from.shard[static_cast<std::size_t>(number * examples + i)],
                    draw_placement(options.augment, dataset->shape(), random));
      }
    } catch (...) {
      done.failure = std::current_exception();
    }
    return done;
  }

  const std::shared_ptr<const Dataset> dataset;
  const LoaderOptions options;
  const std::int64_t batches;
  const std::int64_t window;  // batches that are prepared or in work at most

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable_any changed;
  std::shared_ptr<Epoch> epoch;
  std::int64_t untaken = 0;  // the first batch that next() has not given out
  std::int64_t unbegun = 0;  // the first that no thread works on
  std::map<std::int64_t, Prepared> prepared;

  std::vector<std::jthread> threads;  // last: joined before the rest goes
};

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options)
    : body_(std::make_unique<Body>(std::move(dataset), options)) {}

Loader::~Loader() = default;

std::int64_t Loader::batches() const { return body_->batches; }

void Loader::start(int epoch, std::int64_t batch) {
  DASO_ASSERT(epoch >= 0);
  DASO_ASSERT(batch >= 0 && batch <= body_->batches);
  const auto begun = std::make_shared<Epoch>();
  begun->number = epoch;
  begun->shard = shard_of(body_->options.shard, epoch, body_->options.rank);
  {
    const std::lock_guard lock(body_->mutex);
    if (body_->epoch) body_->epoch->abandoned = true;
    body_->epoch = begun;
    body_->untaken = batch;
    body_->unbegun = batch;
    body_->prepared.clear();
  }
  body_->changed.notify_all();
}

Batch Loader::next() {
  Body& body = *body_;
  std::unique_lock lock(body.mutex);
  DASO_ASSERT(body.epoch != nullptr);        // start() comes first
  DASO_ASSERT(body.untaken < body.batches);  // the epoch is over
  const auto is_ready = [&] { return body.prepared.contains(body.untaken); };
  if (!body.changed.wait_for(lock, body.options.limit, is_ready)) {
    throw Error(
        fmt::format("batch {} of epoch {} is not ready after {} s: reading the data hangs "
                    "or is too slow",
                    body.untaken, body.epoch->number, body.options.limit.count()));
  }
  const auto first = body.prepared.find(body.untaken);
  if (first->second.failure) std::rethrow_exception(first->second.failure);
  Batch batch = std::move(first->second.batch);
  body.prepared.erase(first);
  ++body.untaken;
  lock.unlock();
  body.changed.notify_all();
  return batch;
}

std::int64_t Loader::ready() const {
  const std::lock_guard lock(body_->mutex);
  std::int64_t count = 0;
  while (body_->prepared.contains(body_->untaken + count)) ++count;
  return count;
}

}  // namespace daso
