// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace daso {

// One thread in the background that does tasks in the order in which they were given. After a task
// has thrown, the tasks behind it are dropped, and so is everything posted later.
class Worker {
 public:
  using Task = std::function<void()>;

  // The name is what debuggers and top show of the thread; the system cuts it after 15 letters.
  explicit Worker(const std::string& name);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  // Does what was given before, and waits for it: other ranks have been given the same and wait for
  // this one. So tasks must end by themselves.
  ~Worker();

  void post(Task task);
  // Blocks until all tasks are done; throws what one of them threw.
  void wait();
  // The same without blocking: throws if a task has thrown by now.
  void check();

  // Time in which tasks ran that are done.
  double busy_seconds();

 private:
  void work(const std::stop_token& stop);
  void run(const Task& task);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Task> tasks_;
  bool busy_ = false;
  double busy_seconds_ = 0;
  std::exception_ptr failure_;
  std::jthread thread_;
};

}  // namespace daso
