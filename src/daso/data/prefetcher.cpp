// SPDX-License-Identifier: Apache-2.0
#include "daso/data/prefetcher.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/thread_name.h"

namespace daso {
namespace {

// A batch that is abandoned is over after the example in work: milliseconds, unless reading hangs.
constexpr Seconds kPatience{5};

// What threads need to know of one start().
struct Started {
  BatchSequence sequence;
  std::atomic<bool> abandoned = false;  // nobody wants its batches any more
};

struct Prepared {
  Batch batch;
  std::exception_ptr failure;
};

Prepared prepare(const Started& started, std::int64_t number) {
  Prepared done;
  try {
    done.batch = started.sequence.make(number, started.abandoned);
  } catch (...) {
    done.failure = std::current_exception();
  }
  return done;
}

PrefetchOptions checked(const PrefetchOptions& options) {
  require(options.threads >= 1, "a loader needs at least 1 thread, got {}", options.threads);
  require(options.ahead >= 1, "a loader prepares at least 1 batch ahead, got {}", options.ahead);
  return options;
}

// What the threads work on, theirs as well as the prefetcher's: one that hangs outlives the
// prefetcher.
struct Shared {
  explicit Shared(const PrefetchOptions& options)
      : window(std::max(options.ahead, 2 * options.threads)) {}

  bool batch_is_due() const {
    return started && unbegun < started->sequence.end && unbegun < untaken + window;
  }

  // The life of one thread.
  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || batch_is_due(); });
      if (stopping) break;
      const std::shared_ptr<const Started> mine = started;
      const std::int64_t number = unbegun++;
      lock.unlock();
      Prepared done = prepare(*mine, number);
      lock.lock();
      if (mine == started) prepared.emplace(number, std::move(done));
      changed.notify_all();
    }
    --alive;
    changed.notify_all();
  }

  const std::int64_t window;  // batches that are prepared or in work at most

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::shared_ptr<Started> started;
  std::int64_t untaken = 0;  // the first batch that next() has not given out
  std::int64_t unbegun = 0;  // the first that no thread works on
  std::map<std::int64_t, Prepared> prepared;
  int alive = 0;  // threads that have not ended
  bool stopping = false;
};

}  // namespace

struct Prefetcher::Body {
  explicit Body(const PrefetchOptions& asked)
      : options(checked(asked)), shared(std::make_shared<Shared>(options)) {}

  ~Body() {
    const bool ended = stop();
    for (std::thread& thread : threads) {
      if (ended) {
        thread.join();
      } else {
        thread.detach();
      }
    }
  }

  void add_thread() {
    threads.emplace_back([mine = shared] { mine->work(); });
    name_thread(threads.back().native_handle(), "daso loader");
    const std::lock_guard lock(shared->mutex);
    ++shared->alive;
  }

  // False if a thread does not end.
  bool stop() {
    std::unique_lock lock(shared->mutex);
    shared->stopping = true;
    if (shared->started) shared->started->abandoned = true;
    shared->changed.notify_all();
    // Where next() has waited in vain there is nothing more to wait for.
    const Seconds patience = hangs ? Seconds(0) : std::min(options.limit, kPatience);
    return shared->changed.wait_for(lock, patience, [this] { return shared->alive == 0; });
  }

  const PrefetchOptions options;
  const std::shared_ptr<Shared> shared;
  std::vector<std::thread> threads;
  bool hangs = false;  // the batch that next() asked for last was not there in time
};

Prefetcher::Prefetcher(const PrefetchOptions& options) : body_(std::make_unique<Body>(options)) {
  for (int i = 0; i < options.threads; ++i) body_->add_thread();
}

Prefetcher::~Prefetcher() = default;

void Prefetcher::start(BatchSequence sequence) {
  DASO_ASSERT(sequence.first >= 0 && sequence.first <= sequence.end);
  const auto begun = std::make_shared<Started>();
  begun->sequence = std::move(sequence);
  Shared& shared = *body_->shared;
  {
    const std::lock_guard lock(shared.mutex);
    if (shared.started) shared.started->abandoned = true;
    shared.started = begun;
    shared.untaken = begun->sequence.first;
    shared.unbegun = begun->sequence.first;
    shared.prepared.clear();
  }
  shared.changed.notify_all();
}

Batch Prefetcher::next() {
  Shared& shared = *body_->shared;
  std::unique_lock lock(shared.mutex);
  DASO_ASSERT(shared.started != nullptr);                      // start() comes first
  DASO_ASSERT(shared.untaken < shared.started->sequence.end);  // the sequence is over
  const Seconds limit = body_->options.limit;
  const auto is_ready = [&] { return shared.prepared.contains(shared.untaken); };
  body_->hangs = !shared.changed.wait_for(lock, limit, is_ready);
  if (body_->hangs) {
    throw Error(
        fmt::format("batch {} of {} is not ready after {} s: reading the data hangs or is too slow",
                    shared.untaken, shared.started->sequence.name, limit.count()));
  }
  const auto first = shared.prepared.find(shared.untaken);
  if (first->second.failure) std::rethrow_exception(first->second.failure);
  Batch batch = std::move(first->second.batch);
  shared.prepared.erase(first);
  ++shared.untaken;
  lock.unlock();
  shared.changed.notify_all();
  return batch;
}

std::int64_t Prefetcher::ready() const {
  const Shared& shared = *body_->shared;
  const std::lock_guard lock(shared.mutex);
  std::int64_t count = 0;
  while (shared.prepared.contains(shared.untaken + count)) ++count;
  return count;
}

}  // namespace daso
