// SPDX-License-Identifier: Apache-2.0
// Whoever loses its power or its network says no word of it. Needs root.
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "daso/base/error.h"
#include "daso/comm/store.h"
#include "process.h"

namespace daso::test {
namespace {

constexpr Seconds kLong{60};  // far above the ten seconds that it takes

// The sockets of the test are in a network of its own, which has the loopback alone.
class SilentEnd : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << std::strerror(errno);
    connect_all();
  }

  static void connect_all() { set_loopback(IFF_UP); }
  // Behind all that is on its way: what is sent again and again would tell.
  static void cut_all() {
    EXPECT_TRUE(holds_within(kLong, is_quiet));
    set_loopback(0);
  }
  static std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  // All that was sent has been acknowledged, and read.
  static bool is_quiet() {
    std::ifstream sockets("/proc/self/net/tcp");
    std::string text((std::istreambuf_iterator<char>(sockets)), {});
    std::size_t quiet = 0;
    const std::string nothing = "00000000:00000000";
    for (std::size_t at = 0; (at = text.find(nothing, at)) != std::string::npos; ++at) ++quiet;
    return static_cast<std::ptrdiff_t>(quiet) == std::count(text.begin(), text.end(), '\n') - 1;
  }
  static void set_loopback(int flags) {
    const FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = static_cast<short>(flags);
    ASSERT_EQ(::ioctl(any.get(), SIOCSIFFLAGS, &request), 0) << std::strerror(errno);
  }
};

TEST_F(SilentEnd, OfAMemberIsNoticedByTheHostOfAStore) {
  const Store here = Store::host_for_members(listen_on({"127.0.0.1", 0}), "key");
  const std::size_t before = open_descriptors();
  {
    const Store there = Store::connect_as_member(here.address(), "key", Seconds(5), Seconds(5));
    EXPECT_EQ(there.add("n", 1), 1);
    EXPECT_GT(open_descriptors(), before);
    cut_all();
  }
  EXPECT_TRUE(holds_within(kLong, [&] { return open_descriptors() == before; }))
      << open_descriptors() - before << " descriptors stay open";
}

TEST_F(SilentEnd, ThatWasNoneCostsAMemberNothing) {
  const Store here = Store::host_for_members(listen_on({"127.0.0.1", 0}), "key");
  const Store there = Store::connect_as_member(here.address(), "key", Seconds(5), kLong);
  EXPECT_EQ(there.add("n", 1), 1);
  const std::size_t before = open_descriptors();
  cut_all();
  EXPECT_TRUE(holds_within(kLong, [&] { return open_descriptors() < before; }));
  connect_all();
  EXPECT_EQ(there.add("n", 1), 2);
}

}  // namespace
}  // namespace daso::test
