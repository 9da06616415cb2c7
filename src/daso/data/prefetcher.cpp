// SPDX-License-Identifier: Apache-2.0
#include "daso/data/prefetcher.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "daso/base/error.h"

namespace daso {
namespace {

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

}  // namespace

struct Prefetcher::Body {
  explicit Body(const PrefetchOptions& asked)
      : options(checked(asked)), window(std::max(options.ahead, 2 * options.threads)) {
    for (int i = 0; i < options.threads; ++i) {
      threads.emplace_back([this](const std::stop_token& stop) { work(stop); });
      ::pthread_setname_np(threads.back().native_handle(), "daso loader");
    }
  }

  ~Body() {
    if (started) started->abandoned = true;
    for (std::jthread& thread : threads) thread.request_stop();  // all at once, then joined
  }

  bool batch_is_due() const {
    return started && unbegun < started->sequence.end && unbegun < untaken + window;
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (changed.wait(lock, stop, [this] { return batch_is_due(); }) && !stop.stop_requested()) {
      const std::shared_ptr<const Started> mine = started;
      const std::int64_t number = unbegun++;
      lock.unlock();
      Prepared done = prepare(*mine, number);
      lock.lock();
      if (mine == started) prepared.emplace(number, std::move(done));
      changed.notify_all();
    }
  }

  const PrefetchOptions options;
  const std::int64_t window;  // batches that are prepared or in work at most

  mutable std::mutex mutex;  // guards what follows
  std::condition_variable_any changed;
  std::shared_ptr<Started> started;
  std::int64_t untaken = 0;  // the first batch that next() has not given out
  std::int64_t unbegun = 0;  // the first that no thread works on
  std::map<std::int64_t, Prepared> prepared;

  std::vector<std::jthread> threads;  // last: joined before the rest goes
};

Prefetcher::Prefetcher(const PrefetchOptions& options) : body_(std::make_unique<Body>(options)) {}

Prefetcher::~Prefetcher() = default;

void Prefetcher::start(BatchSequence sequence) {
  DASO_ASSERT(sequence.first >= 0 && sequence.first <= sequence.end);
  const auto begun = std::make_shared<Started>();
  begun->sequence = std::move(sequence);
  {
    const std::lock_guard lock(body_->mutex);
    if (body_->started) body_->started->abandoned = true;
    body_->started = begun;
    body_->untaken = begun->sequence.first;
    body_->unbegun = begun->sequence.first;
    body_->prepared.clear();
  }
  body_->changed.notify_all();
}

Batch Prefetcher::next() {
  Body& body = *body_;
  std::unique_lock lock(body.mutex);
  DASO_ASSERT(body.started != nullptr);                    // start() comes first
  DASO_ASSERT(body.untaken < body.started->sequence.end);  // the sequence is over
  const auto is_ready = [&] { return body.prepared.contains(body.untaken); };
  if (!body.changed.wait_for(lock, body.options.limit, is_ready)) {
    throw Error(
        fmt::format("batch {} of {} is not ready after {} s: reading the data hangs or is too slow",
                    body.untaken, body.started->sequence.name, body.options.limit.count()));
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

std::int64_t Prefetcher::ready() const {
  const std::lock_guard lock(body_->mutex);
  std::int64_t count = 0;
  while (body_->prepared.contains(body_->untaken + count)) ++count;
  return count;
}

}  // namespace daso
