// SPDX-License-Identifier: Apache-2.0
// A process that is not ours, like Python's, and joins a world: it stays as it was. Only programs
// that use rank_main() ask for more.
#include <ATen/ATen.h>
#include <c10/util/Logging.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <array>
#include <csignal>
#include <cstring>
#include <thread>

#include "daso/base/environment.h"
#include "daso/comm/rendezvous.h"
#include "daso/comm/world.h"

namespace daso {
namespace {

constexpr int kSignals = 32;

struct ProcessState {
  Environment environment = this_environment();
  int log_level = FLAGS_caffe2_log_level;
  std::array<void*, kSignals> handlers{};

  ProcessState() {
    for (int number = 1; number < kSignals; ++number) {
      struct sigaction action {};
      ::sigaction(number, nullptr, &action);
      std::memcpy(&handlers.at(static_cast<std::size_t>(number)), &action.sa_handler,
                  sizeof(void*));
    }
  }
};

void talk(const Address& rendezvous, int rank) {
  WorldOptions options;
  options.place = {.rank = rank, .size = 2, .rendezvous = rendezvous, .one_machine = true};
  World world = World::join(options);
  const at::Tensor sum =
      world.everyone().all_reduce(at::ones({2}), Reduce::kSum).wait(world.limit());
  EXPECT_EQ(sum[0].item<float>(), 2.0F);
  world.leave();
}

TEST(AProcessThatJoinsAWorld, KeepsItsEnvironmentLogLevelAndSignalHandlers) {
  const ProcessState before;
  {
    const Store store = Store::host(listen_on({"127.0.0.1", 0}));
    mark_job(store, "");
    const std::jthread other([&] { talk(store.address(), 1); });
    talk(store.address(), 0);
  }
  const ProcessState after;
  EXPECT_EQ(before.environment, after.environment);
  EXPECT_EQ(before.log_level, after.log_level);
  EXPECT_EQ(before.handlers, after.handlers);
}

TEST(TheLibrary, StandsInFrontOfNoFunctionOfTheSystem) {
  Dl_info ours{};
  ASSERT_NE(::dladdr(reinterpret_cast<const void*>(&this_environment), &ours), 0);
  void* library = ::dlopen(ours.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << ours.dli_fname;
  Dl_info found{};
  ASSERT_NE(::dladdr(::dlsym(library, "getnameinfo"), &found), 0);
  EXPECT_STRNE(found.dli_fname, ours.dli_fname);
  ::dlclose(library);
}

}  // namespace
}  // namespace daso
