// SPDX-License-Identifier: Apache-2.0
// Views that are decided over real sockets and by the real clock.
#include <gtest/gtest.h>

#include <set>

#include "daso/membership/membership.h"
#include "launch/switchboards.h"

namespace daso::test {
namespace {

using membership::Membership;
using membership::View;

Seconds now() { return Clock::now().time_since_epoch(); }

// A launcher without ranks: a Membership that lives on its switchboard's thread.
class Voter {
 public:
  Voter(Membership membership, FileDescriptor listening, std::map<NodeId, Address> nodes)
      : membership_(std::move(membership)),
        switchboard_({.self = membership_.self(),
                      .key = "key",
                      .listening = std::move(listening),
                      .nodes = std::move(nodes)},
                     {.on_message =
                          [this](const Member& from, std::span<const std::byte> bytes) {
                            const auto message = membership::decode(bytes);
                            if (!message || message->from != from) return;
                            membership_.receive(*message, now());
                            act();
                          },
                      .on_reset =
                          [this](const Member& member) {
                            membership_.died(member, now());
                            act();
                          },
                      .on_greeting =
                          [this](const Member& member, const Greeting&) {
                            const std::lock_guard lock(mutex_);
                            connected_.insert(member.node);
                            changed_.notify_all();
                          },
                      .on_tick =
                          [this] {
                            membership_.tick(now());
                            act();
                          }}) {}

  bool enters(const View& expected, Seconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] {
      return view_.number == expected.number && view_.members == expected.members;
    });
  }
  bool is_connected(NodeId node, Seconds limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [&] { return connected_.contains(node); });
  }
  void ready() {
    switchboard_.post([this] { membership_.ready(); });
  }
  void die() { switchboard_.abort(); }

 private:
  void act() {
    for (auto actions = membership_.take_actions(); !actions.empty();
         actions = membership_.take_actions()) {
      for (const membership::Action& action : actions) {
        if (const auto* const send = std::get_if<membership::Send>(&action)) {
          switchboard_.send(send->to, membership::encode(send->message));
        } else if (const auto* const freeze = std::get_if<membership::Freeze>(&action)) {
          membership_.frozen(freeze->view, std::nullopt, now());
        } else if (const auto* const enter = std::get_if<membership::Enter>(&action)) {
          const std::lock_guard lock(mutex_);
          view_ = enter->view;
          changed_.notify_all();
        }
      }
    }
  }

  Membership membership_;  // touched by the switchboard's thread alone
  std::mutex mutex_;
  std::condition_variable changed_;
  View view_;
  std::set<NodeId> connected_;
  Switchboard switchboard_;
};

TEST(SwitchboardViews, AreDecidedWithoutTheDeadAndWithWhoComesBack) {
  const View first{.number = 1, .members = {{0, 1}, {1, 1}, {2, 1}}};
  std::vector<FileDescriptor> listening;
  std::map<NodeId, Address> nodes;
  for (NodeId node = 0; node < 3; ++node) {
    listening.push_back(listen_on({"127.0.0.1", 0}));
    nodes[node] = bound_address(listening.back());
  }
  std::vector<std::unique_ptr<Voter>> voters;
  for (const Member& member : first.members) {
    voters.push_back(std::make_unique<Voter>(Membership({}, member, first, now()),
                                             std::move(listening[member.node]), nodes));
  }
  for (const auto& voter : voters) ASSERT_TRUE(voter->enters(first, kLimit));

  // Death is told by connections, so these must be there first.
  for (NodeId node = 0; node < 2; ++node) ASSERT_TRUE(voters[node]->is_connected(2, kLimit));
  voters[2]->die();
  const View second{.number = 2, .members = {{0, 1}, {1, 1}}};
  for (NodeId node = 0; node < 2; ++node) EXPECT_TRUE(voters[node]->enters(second, Seconds(1)));

  FileDescriptor elsewhere = listen_on({"127.0.0.1", 0});
  voters[2] = std::make_unique<Voter>(
      Membership({}, Member{2, 2}, std::vector<NodeId>{0, 1}, now()), std::move(elsewhere), nodes);
  voters[2]->ready();
  const View third{.number = 3, .members = {{0, 1}, {1, 1}, {2, 2}}};
  for (const auto& voter : voters) EXPECT_TRUE(voter->enters(third, kLimit));
}

}  // namespace
}  // namespace daso::test
