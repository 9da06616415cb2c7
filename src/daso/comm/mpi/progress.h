// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/mpi/mpi_check.h"
#include "daso/comm/mpi/types.h"

namespace daso::mpi {

// One operation, from the call to its end. What it needs while it is in flight, its functions hold.
// Both run on the progress thread.
struct Task {
  std::string name;  // operation and group, for messages
  Seconds limit;     // from here on
  std::function<MPI_Request(const Types&)> start;
  // Called once, with the status of an operation that is complete, or else with its error. Does not
  // throw.
  std::function<void(const MPI_Status*, std::exception_ptr)> finish;
};

// How long the progress thread rests between two rounds of testing what is in flight. Policy only.
class Pace {
 public:
  void moved() { idle_rounds_ = 0; }
  void idled() { ++idle_rounds_; }
  std::chrono::microseconds rest() const;

 private:
  int idle_rounds_ = 0;
};

// MPI and the one thread that calls it. MPI moves data only inside its own calls, so something has
// to call it while the program computes; and one thread that does all calls needs no lock in MPI.
//
// MPI can be started once in a process, so there is at most one Progress in its lifetime.
class Progress {
 public:
  // Starts MPI, which meets all ranks of the job. Throws ConfigError; leaves as lost (lost.h) when
  // the others do not come within the limit.
  explicit Progress(Seconds limit);
  // Lets what is in flight finish, within its limits, then ends MPI, which meets all ranks again,
  // unless it is left behind. Not on the progress thread.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  int rank() const { return rank_; }  // in MPI_COMM_WORLD
  int size() const { return size_; }
  bool is_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // Tasks start in the order of the calls; they finish in any order.
  void enqueue(Task task);
  // Runs blocking calls of MPI on the thread and waits for them. Not on the progress thread.
  void call(const std::string& name, Seconds limit, const std::function<void()>& body);
  // Frees the communicator on the thread.
  void retire(MpiComm communicator);
  // Leaves MPI without its end, since the others may never come to theirs. mpirun ends a job when a
  // rank is gone like this.
  void leak() { left_behind_ = true; }

 private:
  struct Flight {
    Task task;
    Deadline deadline;
    MPI_Request request;
  };

  void run(std::promise<void>& started);
  void start_mpi();
  void serve(const Types& types);
  // Waits for work; false when there will be none any more.
  bool take(std::vector<Flight>& fresh);
  void start(Flight flight, const Types& types);
  bool test_all();
  bool test(Flight& flight);

  int rank_ = -1;
  int size_ = 0;
  Seconds limit_;  // for starting MPI; for ending it the longest that anybody asked for
  std::atomic<bool> left_behind_ = false;

  std::mutex mutex_;  // guards the four below
  std::condition_variable called_;
  std::vector<Flight> queue_;
  std::vector<MpiComm> retired_;
  bool closing_ = false;

  // Of the progress thread alone.
  std::vector<Flight> flights_;
  Pace pace_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace daso::mpi
