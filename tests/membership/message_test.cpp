// SPDX-License-Identifier: Apache-2.0
#include "daso/membership/message.h"

#include <gtest/gtest.h>

#include "daso/base/random.h"

namespace daso::membership {
namespace {

const View kView{.number = 7,
                 .members = {{0, 1}, {2, 9}},
                 .first_exchange = 12,
                 .settled = {{10, true}, {11, false}},
                 .blocking = BlockingStep{40, 2},
                 .joined = {{2, 9}}};

std::vector<Message> one_of_each() {
  const Report report{.progress = {12, 10, {10, 11}},
                      .step = 40,
                      .leaving = true,
                      .candidates = {{5, 1}},
                      .dead = {{1, 1}}};
  const Member from{3, 0x0123456789abcdef};
  return {{from, 7, Pulse{report.progress, true, {{5, 1}, {5, 2}}}},
          {from, 7, Prepare{{1, 3}}},
          {from, 7, Promise{{1, 3}, report, AcceptedView{{1, 2}, kView}}},
          {from, 7, Reject{{1, 3}, {2, 0}}},
          {from, 7, Accept{{1, 3}, kView}},
          {from, 7, Accepted{{1, 3}}},
          {from, 7, Decided{kView}},
          {from, 0, Join{.ready = true, .copy_to = "10.0.0.3:42000 7"}},
          {from, 7, NoCopy{}}};
}

TEST(Message, IsReadAsItWasWritten) {
  const auto messages = one_of_each();
  ASSERT_EQ(std::variant_size_v<Body>, messages.size());
  for (const Message& message : messages) {
    EXPECT_EQ(message, decode(encode(message))) << name_of(message.body);
  }
}

TEST(Message, IsRefusedIfAnythingIsMissingOrLeftOver) {
  for (const Message& message : one_of_each()) {
    auto bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(decode(std::span(bytes).first(size))) << name_of(message.body) << ' ' << size;
    }
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(decode(bytes)) << name_of(message.body);
  }
}

TEST(Message, IsRefusedOrReadWholeWhateverTheBytes) {
  RandomStream random{22, 3};
  const auto messages = one_of_each();
  int read = 0;
  for (int i = 0; i < 200000; ++i) {
    auto bytes = encode(messages[random.below(messages.size())]);
    for (auto flips = 1 + random.below(4); flips > 0; --flips) {
      bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
    }
    const auto message = decode(bytes);
    if (!message) continue;
    ++read;
    ASSERT_EQ(bytes, encode(*message));
  }
  EXPECT_GT(read, 1000);
}

TEST(Message, IsRefusedWithListsTooLongOrOutOfOrder) {
  Message message{{0, 1}, 2, Decided{kView}};
  View& view = std::get<Decided>(message.body).view;
  view.members = {{2, 9}, {0, 1}};
  EXPECT_FALSE(decode(encode(message)));
  view.members = {{0, 1}, {0, 2}};  // one node twice
  EXPECT_FALSE(decode(encode(message)));
  view.members.clear();
  for (NodeId node = 0; node <= kMostMembers; ++node) view.members.push_back({node, 1});
  EXPECT_FALSE(decode(encode(message)));
  view.members.pop_back();
  EXPECT_TRUE(decode(encode(message)));
  message.body = Pulse{.progress = {3, 1, {3}}};  // prepared, but not started
  EXPECT_FALSE(decode(encode(message)));
  message.body = Pulse{.progress = {1, 3}};
  EXPECT_FALSE(decode(encode(message)));
}

}  // namespace
}  // namespace daso::membership
