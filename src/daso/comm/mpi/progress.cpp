// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/mpi/progress.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "daso/base/error.h"
#include "daso/comm/mpi/lost.h"

namespace daso::mpi {
namespace {

// Time this thread has computed. Unlike the clock it does not count the time that MPI gave away to
// other threads by yielding.
std::chrono::nanoseconds thread_time() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// A test that finds nothing to do costs 1.0 to 1.5 us, one that moves data more.
constexpr std::chrono::microseconds kBusyTest{2};

// Whoever waits for an operation calls the roll when its limit is over, and tells who is missing.
// This is how long it may take; then nobody is waiting, or the roll could not be called.
constexpr Seconds kTimeToReport{5};

// Turns an error that nobody can mend here into the end of the process.
[[noreturn]] void leave_with(const std::string& name, const PeerError& error, int rank) {
  leave_as_lost(fmt::format("{} over mpi failed on rank {}: {}", name, rank, error.what()));
}

}  // namespace

// The first rounds follow at once, so that a small operation costs its latency and no more.
std::chrono::microseconds Pace::rest() const {
  constexpr int kEagerRounds = 50;
  constexpr int kShortest = 25;
  constexpr int kDoublings =
      3;  // up to 200 us: waking 5000 times a second is a few percent of a core
  if (idle_rounds_ < kEagerRounds) return std::chrono::microseconds(0);
  return std::chrono::microseconds(kShortest << std::min(idle_rounds_ - kEagerRounds, kDoublings));
}

Progress::Progress(Seconds limit) : limit_(limit) {
  std::promise<void> started;
  thread_ = std::thread([this, &started] { run(started); });
  try {
    started.get_future().get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  called_.notify_one();
  thread_.join();
}

void Progress::enqueue(Task task) {
  const Deadline deadline(task.limit + kTimeToReport);
  {
    const std::lock_guard lock(mutex_);
    limit_ = std::max(limit_, task.limit);
    queue_.push_back({std::move(task), deadline, MPI_REQUEST_NULL});
  }
  called_.notify_one();
}

void Progress::call(const std::string& name, Seconds limit, const std::function<void()>& body) {
  DASO_ASSERT(!is_this_thread());
  std::promise<void> done;
  enqueue({.name = name,
           .limit = limit,
           .start =
               [&](const Types&) {
                 const Watchdog guard(late_text(name, limit, rank_), limit + kTimeToReport);
                 body();
                 return MPI_REQUEST_NULL;
               },
           .finish =
               [&](const MPI_Status*, std::exception_ptr error) {
                 error ? done.set_exception(std::move(error)) : done.set_value();
               }});
  done.get_future().get();  // the watchdog's limit is this one's
}

void Progress::retire(MpiComm communicator) {
  {
    const std::lock_guard lock(mutex_);
    retired_.push_back(std::move(communicator));
  }
  called_.notify_one();
}

void Progress::run(std::promise<void>& started) {
  try {
    start_mpi();
  } catch (...) {
    started.set_exception(std::current_exception());
    return;
  }
  started.set_value();
  serve(Types());
  if (left_behind_) return;
  const Watchdog guard(late_text("ending MPI", limit_, rank_), limit_);
  static_cast<void>(MPI_Finalize());
}

void Progress::start_mpi() {
  int already = 0;
  MPI_Initialized(&already);
  require(already == 0,
          "the mpi backend has to start MPI itself, but this program has done so already; leave "
          "out its MPI_Init");
  const Watchdog guard(
      fmt::format("not all ranks of this job have started MPI within {:g} s", limit_.count()),
      limit_);
  int provided = MPI_THREAD_SINGLE;
  mpi_check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  mpi_check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  mpi_check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  mpi_check(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  require(provided >= MPI_THREAD_FUNNELED,
          "the mpi backend calls MPI from one thread of several, and this MPI library cannot do "
          "that (it grants thread level {}); use one built with threads",
          provided);
}

void Progress::serve(const Types& types) {
  std::vector<Flight> fresh;
  while (take(fresh)) {
    for (Flight& flight : fresh) start(std::move(flight), types);
    fresh.clear();
    const auto before = thread_time();
    const auto tests = static_cast<int>(flights_.size());
    const bool finished = test_all();
    finished || thread_time() - before > kBusyTest* tests ? pace_.moved() : pace_.idled();
  }
}

bool Progress::take(std::vector<Flight>& fresh) {
  std::vector<MpiComm> retired;  // freed after the lock
  std::unique_lock lock(mutex_);
  const auto called = [this] { return !queue_.empty() || !retired_.empty(); };
  if (flights_.empty()) {
    called_.wait(lock, [&] { return closing_ || called(); });
  } else if (const auto rest = pace_.rest(); rest.count() > 0) {
    called_.wait_for(lock, rest, called);
  }
  if (!queue_.empty()) pace_.moved();
  fresh.swap(queue_);
  retired.swap(retired_);
  const bool more = !closing_ || !fresh.empty() || !flights_.empty();
  lock.unlock();
  return more;
}

void Progress::start(Flight flight, const Types& types) {
  try {
    flight.request = flight.task.start(types);
    flights_.push_back(std::move(flight));
  } catch (const PeerError& error) {
    leave_with(flight.task.name, error, rank_);
  } catch (...) {
    flight.task.finish(nullptr, std::current_exception());
  }
}

bool Progress::test_all() {
  const auto gone = std::remove_if(flights_.begin(), flights_.end(),
                                   [this](Flight& flight) { return test(flight); });
  const bool finished = gone != flights_.end();
  flights_.erase(gone, flights_.end());
  return finished;
}

bool Progress::test(Flight& flight) {
  int complete = 0;
  MPI_Status status{};
  try {
    mpi_check(MPI_Test(&flight.request, &complete, &status));
  } catch (const PeerError& error) {
    leave_with(flight.task.name, error, rank_);
  } catch (const ConfigError&) {
    flight.task.finish(nullptr, std::current_exception());
    return true;
  }
  if (complete != 0) {
    flight.task.finish(&status, nullptr);
  } else if (flight.deadline.passed()) {
    leave_as_lost(late_text(flight.task.name, flight.task.limit, rank_));
  }
  return complete != 0;
}

}  // namespace daso::mpi
