// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/alarm.h"

#include <stop_token>
#include <utility>

#include "daso/base/abandonable.h"
#include "daso/base/while_waiting.h"

namespace daso {

Alarm::Outcome Alarm::wait(const std::function<bool()>& done, const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto is_settled = [&] { return done() || failure_; };
  while (!changed_.wait_until(lock, WhileWaiting::pause(deadline.when()), is_settled) &&
         !deadline.passed()) {
    lock.unlock();
    WhileWaiting::look();
    lock.lock();
  }
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
  for (const auto& [ticket, action] : actions_) action(*failure_);
  changed_.notify_all();
}

std::optional<Failure> Alarm::raised() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::int64_t Alarm::on_raise(Action action) {
  const std::lock_guard lock(mutex_);
  if (failure_) action(*failure_);
  actions_.emplace(++tickets_, std::move(action));
  return tickets_;
}

void Alarm::forget(std::int64_t ticket) {
  const std::lock_guard lock(mutex_);
  actions_.erase(ticket);
}

bool run_unless_raised(Alarm& alarm, std::function<void()> task, const Deadline& deadline) {
  std::stop_source raised;
  // Forgotten in any case: the action knows this call's stop.
  struct Ticket {
    ~Ticket() { alarm.forget(number); }
    Alarm& alarm;
    std::int64_t number;
  };
  const Ticket ticket{alarm, alarm.on_raise([&](const Failure&) { raised.request_stop(); })};
  Abandonable calls("daso task");
  return calls.run(std::move(task), deadline, "", raised.get_token()) ==
         Abandonable::Outcome::kDone;
}

}  // namespace daso
