// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/reach.h"

#include <gtest/gtest.h>

namespace daso {
namespace {

constexpr Seconds kLimit{10};

Address closed_door() { return bound_address(listen_on({"127.0.0.1", 0})); }

TEST(TryDoors, TellsThoseThatDoNotOpen) {
  const FileDescriptor open = listen_on({"127.0.0.1", 0});
  // More than are tried at once; nobody passes, and still all of them open.
  std::vector<Address> doors(100, bound_address(open));
  doors[70] = closed_door();
  const std::vector<std::string> problems = try_doors(doors, kLimit);
  ASSERT_EQ(problems.size(), doors.size());
  for (std::size_t i = 0; i < problems.size(); ++i) {
    EXPECT_EQ(problems[i], i == 70 ? "Connection refused" : "") << i;
  }
}

TEST(TryDoors, EndsWithinTheLimit) {
  const auto start = Clock::now();
  // Reserved for documentation: if there is a way at all, nothing answers there.
  const std::vector<std::string> problems = try_doors({{"192.0.2.1", 9}}, Seconds(0.2));
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0], "");
  EXPECT_LT(since(start).count(), 5);
}

TEST(BrokenPair, NamesBothRanksTheAddressAndTheFlag) {
  const FileDescriptor open = listen_on({"127.0.0.1", 0});
  const std::vector<Member> members = {
      {.launch_rank = 0, .host = "a", .node = "node0", .door = bound_address(open)},
      {.launch_rank = 1, .host = "b", .node = "node1", .door = closed_door()},
      {.launch_rank = 2, .host = "b", .node = "node1", .door = bound_address(open)},
      {.launch_rank = 3, .host = "b", .node = "node1", .door = std::nullopt}};
  EXPECT_FALSE(broken_pair(members, {0, 2, 3}, 2, kLimit));
  const std::string text = broken_pair(members, {0, 1, 2}, 2, kLimit).value_or("none");
  for (const std::string& part :
       {std::string("rank 2 (node1 on host b) cannot reach rank 1 (node1 on host b) at ") +
            members[1].door->text() + ": Connection refused",
        std::string("--interface")}) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace daso
