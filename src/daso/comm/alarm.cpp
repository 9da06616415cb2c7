// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/alarm.h"

#include <exception>
#include <thread>
#include <utility>

namespace daso {

Alarm::Outcome Alarm::wait(const std::function<bool()>& done, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.when(), [&] { return done() || failure_; });
  if (done()) return Outcome::kDone;
  return failure_ ? Outcome::kRaised : Outcome::kLate;
}

void Alarm::change(const std::function<void()>& edit) {
  const std::lock_guard lock(mutex_);
  edit();
  changed_.notify_all();
}

void Alarm::raise(Failure failure) {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = std::move(failure);
  for (const auto& [ticket, action] : actions_) action();
  changed_.notify_all();
}

std::optional<Failure> Alarm::raised() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::int64_t Alarm::on_raise(std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  if (failure_) action();
  actions_.emplace(++tickets_, std::move(action));
  return tickets_;
}

void Alarm::forget(std::int64_t ticket) {
  const std::lock_guard lock(mutex_);
  actions_.erase(ticket);
}

bool run_unless_raised(const std::shared_ptr<Alarm>& alarm, std::function<void()> task,
                       const Deadline& deadline) {
  struct Run {
    bool done = false;
    std::exception_ptr error;
  };
  const auto run = std::make_shared<Run>();
  std::thread([alarm, run, task = std::move(task)]() mutable {
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    task = nullptr;  // what it owns dies here, before anybody is told
    alarm->change([&] {
      run->error = error;
      run->done = true;
    });
  }).detach();
  if (alarm->wait([&] { return run->done; }, deadline) != Alarm::Outcome::kDone) return false;
  if (run->error) std::rethrow_exception(run->error);
  return true;
}

}  // namespace daso
