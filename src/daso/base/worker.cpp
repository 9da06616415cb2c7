// SPDX-License-Identifier: Apache-2.0
#include "daso/base/worker.h"

#include <utility>

#include "daso/base/seconds.h"
#include "daso/base/thread_name.h"

namespace daso {

Worker::Worker(const std::string& name)
    : thread_([this](const std::stop_token& stop) { work(stop); }) {
  name_thread(thread_.native_handle(), name);
}

Worker::~Worker() = default;  // the thread is asked to stop when nothing is left, and joined

void Worker::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void Worker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty() && !busy_; });
  if (failure_) std::rethrow_exception(failure_);
}

void Worker::check() {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

double Worker::busy_seconds() {
  const std::lock_guard lock(mutex_);
  return busy_seconds_;
}

void Worker::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return !tasks_.empty(); })) {
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    const auto start = Clock::now();
    run(task);
    const double seconds = since(start).count();
    lock.lock();
    busy_seconds_ += seconds;
    busy_ = false;
    if (tasks_.empty()) changed_.notify_all();
  }
}

void Worker::run(const Task& task) {
  try {
    task();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    tasks_.clear();
  }
}

}  // namespace daso
