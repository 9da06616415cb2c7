// SPDX-License-Identifier: Apache-2.0
#include "run_ranks.h"

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "daso/base/error.h"
#include "daso/comm/no_reverse_lookup.h"
#include "daso/comm/rendezvous.h"

namespace daso::test {
namespace {

constexpr const char* kToken = "test";

// A test that hangs must say so instead.
class Watchdog {
 public:
  explicit Watchdog(Seconds limit) : thread_([this, limit] { watch(limit); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void watch(Seconds limit) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
    std::fprintf(stderr, "a rank did not end within %g s: this is a hang\n", limit.count());
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

WorldOptions options_of(const RankOptions& options, int rank, const Address& rendezvous) {
  WorldOptions world;
  world.place.rank = rank;
  world.place.size = options.ranks;
  world.place.local_rank = rank;
  world.place.node = options.nodes.empty() ? "a" : options.nodes.at(static_cast<std::size_t>(rank));
  world.place.rendezvous = rendezvous;
  world.place.job_token = kToken;
  world.limit = options.limit;
  world.check_collectives = options.check_collectives;
  if (options.edit) options.edit(world);
  return world;
}

// As launchers do it.
Store host_for(const RankOptions& options) {
  FileDescriptor listening = listen_on({"127.0.0.1", 0});
  const WorldOptions world = options_of(options, 0, bound_address(listening));
  const bool for_members = world.view && !world.view->replayed;
  return for_members ? Store::host_for_members(std::move(listening), kToken)
                     : Store::host(std::move(listening));
}

}  // namespace

std::vector<std::exception_ptr> run_places(const RankOptions& options,
                                           const std::function<void(const WorldOptions&)>& body) {
  set_up_process();
  const Store store = host_for(options);
  mark_job(store, kToken);
  const Watchdog watchdog(options.limit + Seconds(30));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(options.ranks));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < options.ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(options_of(options, rank, store.address()));
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  threads.clear();
  return errors;
}

void run_ranks(const RankOptions& options, const std::function<void(World&)>& body) {
  const auto errors = run_places(options, [&](const WorldOptions& place) {
    World world = World::join(place);
    body(world);
    world.leave();
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

std::string text_of(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  }
}

int exit_code_of(const std::exception_ptr& error) {
  if (!error) return kExitOk;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return daso::exit_code_of(known);
  }
}

}  // namespace daso::test
