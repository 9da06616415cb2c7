// SPDX-License-Identifier: Apache-2.0
#include "daso/base/abandonable.h"

#include <condition_variable>
#include <exception>
#include <utility>

#include "daso/base/thread_name.h"
#include "daso/base/while_waiting.h"

namespace daso {

struct Abandonable::Call {
  std::string what;
  std::function<void()> act;
  bool over = false;
  bool abandoned = false;  // nobody waits for it any more
  std::exception_ptr failure;
};

struct Abandonable::Shared {
  mutable std::mutex mutex;  // guards what follows, the fields of the call too
  std::condition_variable_any changed;
  std::shared_ptr<Call> current;  // the one that runs or is about to
  bool ending = false;

  // With the mutex held.
  void abandon(Call& call) {
    call.abandoned = true;
    changed.notify_all();
  }

  void serve() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return ending || current; });
      if (!current) return;
      const std::shared_ptr<Call> call = current;
      std::function<void()> act = std::exchange(call->act, nullptr);
      lock.unlock();
      std::exception_ptr thrown;
      try {
        act();
      } catch (...) {
        thrown = std::current_exception();
      }
      act = nullptr;  // what it owns dies before anybody is told
      lock.lock();
      call->failure = thrown;
      call->over = true;
      current = nullptr;
      changed.notify_all();
    }
  }
};

Abandonable::Abandonable(const std::string& thread_name)
    : shared_(std::make_shared<Shared>()), thread_([shared = shared_] { shared->serve(); }) {
  name_thread(thread_.native_handle(), thread_name);
}

Abandonable::~Abandonable() {
  bool idle = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ending = true;
    shared_->changed.notify_all();
    idle = !shared_->current;
  }
  if (idle) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

Abandonable::Outcome Abandonable::run(std::function<void()> call, const Deadline& deadline,
                                      const std::string& what, const std::stop_token& stop,
                                      Seconds patience) {
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  const auto is_settled = [&] { return !shared.current || shared.current->abandoned; };
  if (!shared.changed.wait_until(lock, deadline.when(), is_settled)) return Outcome::kLate;
  if (shared.current) return Outcome::kStuck;
  const auto own = std::make_shared<Call>();
  own->what = what;
  own->act = std::move(call);
  shared.current = own;
  shared.changed.notify_all();
  const auto is_over = [&] { return own->over; };
  while (!shared.changed.wait_until(lock, stop, WhileWaiting::pause(deadline.when()), is_over) &&
         !stop.stop_requested() && !deadline.passed()) {
    lock.unlock();
    try {
      WhileWaiting::look();
    } catch (...) {
      lock.lock();
      shared.abandon(*own);
      throw;
    }
    lock.lock();
  }
  if (!own->over && stop.stop_requested()) shared.changed.wait_for(lock, patience, is_over);
  if (!own->over) {
    shared.abandon(*own);
    return stop.stop_requested() ? Outcome::kStopped : Outcome::kLate;
  }
  if (own->failure) std::rethrow_exception(own->failure);
  return Outcome::kDone;
}

std::string Abandonable::hanging() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->current && shared_->current->abandoned ? shared_->current->what : "";
}

}  // namespace daso
