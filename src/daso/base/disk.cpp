// SPDX-License-Identifier: Apache-2.0
#include "daso/base/disk.h"

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "daso/base/error.h"

namespace daso {
namespace {

constexpr Seconds kPatience{1};  // where the disk was given up

}  // namespace

// The thread's as well as ours: one that hangs outlives the disk.
struct Disk::Task {
  explicit Task(std::string doing) : what(std::move(doing)) {}

  void work(const std::function<void()>& act) {
    std::exception_ptr thrown;
    try {
      act();
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    failure = thrown;
    over = true;
    changed.notify_all();
  }

  // False if it is not over in time.
  bool wait(Seconds limit, const std::stop_token& given_up) {
    const auto is_done = [this] { return over; };
    std::unique_lock lock(mutex);
    changed.wait_until(lock, given_up, Deadline(limit).when(), is_done);
    if (!over && given_up.stop_requested()) changed.wait_for(lock, kPatience, is_done);
    return over;
  }

  bool is_over() {
    const std::lock_guard lock(mutex);
    return over;
  }

  const std::string what;
  std::mutex mutex;  // guards what follows
  std::condition_variable_any changed;
  bool over = false;
  std::exception_ptr failure;
};

void Disk::run(Seconds limit, const std::string& what, std::function<void()> act) {
  if (late_ && !late_->is_over()) {
    throw Error(
        fmt::format("{} has not begun: the disk hangs, {} is still not done", what, late_->what));
  }
  late_.reset();
  const auto begun = Clock::now();
  const auto refuse = [&] {
    throw Error(fmt::format("{} is not done after {:.1f} s: the disk hangs or is too slow", what,
                            since(begun).count()));
  };
  if (limit <= Seconds(0)) refuse();  // what came before has taken all the time
  const auto task = std::make_shared<Task>(what);
  std::thread thread([task, act = std::move(act)] { task->work(act); });
  ::pthread_setname_np(thread.native_handle(), "daso disk");
  if (!task->wait(limit, given_up_.get_token())) {
    thread.detach();
    late_ = task;
    refuse();
  }
  thread.join();
  if (task->failure) std::rethrow_exception(task->failure);
}

}  // namespace daso
