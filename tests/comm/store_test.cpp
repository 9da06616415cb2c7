// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <functional>
#include <thread>

#include "daso/base/error.h"
#include "daso/comm/socket_address.h"
#include "daso/comm/tcp/table.h"
#include "relay.h"

namespace daso {
namespace {

// LibTorch's, and the one for members of a job.
enum class Kind { kForAll, kForMembers };

class Stores : public testing::TestWithParam<Kind> {
 protected:
  static Store host(FileDescriptor listening = listen_on({"127.0.0.1", 0})) {
    return GetParam() == Kind::kForAll ? Store::host(std::move(listening))
                                       : Store::host_for_members(std::move(listening), "key");
  }
  static Store connect(const Address& address, Seconds limit) {
    return GetParam() == Kind::kForAll ? Store::connect(address, limit)
                                       : Store::connect_as_member(address, "key", limit, limit);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, Stores, testing::Values(Kind::kForAll, Kind::kForMembers),
                         [](const auto& kind) {
                           return kind.param == Kind::kForAll ? "ForAll" : "ForMembers";
                         });

TEST_P(Stores, IsOneTableForAllConnections) {
  const Store here = host();
  const Store there = connect(here.address(), Seconds(5));
  here.set("a", "1");
  EXPECT_EQ(here.find("a"), "1");  // nobody acknowledges a set: only now it is in the table
  EXPECT_EQ(there.find("a"), "1");
  EXPECT_FALSE(there.find("b"));
  EXPECT_EQ(there.add("n", 2), 2);
  EXPECT_EQ(here.second_connection().add("n", 3), 5);
  there.erase("a");
  EXPECT_FALSE(here.find("a"));
}

TEST_P(Stores, SetsOnceForTheFirstOnly) {
  const Store store = host();
  EXPECT_EQ(store.set_once("a", "first"), "first");
  EXPECT_EQ(store.set_once("a", "second"), "first");
}

TEST_P(Stores, AppendsWhatEveryConnectionAdds) {
  const Store here = host();
  const Store there = connect(here.address(), Seconds(5));
  here.under("x").append("a", "1\n");
  EXPECT_EQ(here.find("x/a"), "1\n");  // nobody acknowledges it either
  there.append("x/a", "2\n");
  EXPECT_EQ(there.find("x/a"), "1\n2\n");
}

TEST_P(Stores, KeepsPrefixesApart) {
  const Store store = host();
  store.under("x").set("a", "1");
  EXPECT_FALSE(store.under("y").find("a"));
  EXPECT_EQ(store.find("x/a"), "1");
  EXPECT_EQ(store.under("x").under("y").set_once("b", "2"), "2");
  EXPECT_EQ(store.find("x/y/b"), "2");
}

TEST_P(Stores, ErasesARangeOfKeys) {
  const Store here = host();
  const Store there = connect(here.address(), Seconds(5));
  for (const char* key : {"a/z", "b/1", "b/2", "c", "c/1", "d"}) there.under("x").set(key, "1");
  there.set("b", "1");
  there.under("x").erase_range("b", "c");
  there.under("x").erase_range("e", "a");  // which is none
  const auto kept = [&](const char* key) { return there.find(key).has_value(); };
  EXPECT_TRUE(kept("x/a/z") && kept("x/c") && kept("x/c/1") && kept("x/d") && kept("b"));
  EXPECT_FALSE(kept("x/b/1") || kept("x/b/2"));
}

TEST_P(Stores, ListensOnTheAddressItWasGivenOnly) {
  const Store store = host();
  EXPECT_EQ(store.address().host, "127.0.0.1");
  EXPECT_THROW(connect({"127.0.0.2", store.address().port}, Seconds(0.3)), PeerError);
}

// Without that the user looks for a rank that has not started, or for a firewall.
TEST(Store, SaysThatAHostIsUnknown) {
  try {
    Store::connect({"nobody.invalid", 1}, Seconds(0.3));
    FAIL();
  } catch (const PeerError& error) {
    EXPECT_STREQ(error.what(),
                 "host 'nobody.invalid' of the rendezvous nobody.invalid:1 is unknown here, after "
                 "0.3 s too");
  }
}

TEST_P(Stores, GivesUpItsPortWhenItDies) {
  Address address;
  {
    const Store store = host();
    address = store.address();
  }
  const FileDescriptor again = listen_on(address);
  EXPECT_EQ(bound_address(again).port, address.port);
}

// A host that was stopped for longer than the limit, and goes on.
TEST_P(Stores, ALateAnswerMakesTheConnectionGoodAgain) {
  FileDescriptor listening = listen_on({"127.0.0.1", 0});
  const Address address = bound_address(listening);
  const pid_t child = ::fork();
  if (child == 0) {
    const Store store = host(std::move(listening));
    ::pause();
    ::_exit(0);
  }
  listening.close();
  const Store store = connect(address, Seconds(0.3));
  EXPECT_EQ(store.add("n", 1), 1);
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_THROW(store.add("n", 1), PeerError);
  EXPECT_THROW(store.add("n", 1), PeerError);  // at once, and not begun
  ::kill(child, SIGCONT);
  const Deadline deadline(Seconds(10));
  std::int64_t count = 0;
  while (count == 0 && !deadline.passed()) {
    try {
      count = store.add("n", 1);
    } catch (const PeerError&) {
      std::this_thread::yield();  // not yet
    }
  }
  EXPECT_EQ(count, 3);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

// A stopped host neither answers nor closes the connection.
TEST_P(Stores, AHostThatIsStoppedBecomesAnErrorWithinTheLimit) {
  FileDescriptor listening = listen_on({"127.0.0.1", 0});
  const Address address = bound_address(listening);
  const pid_t child = ::fork();
  if (child == 0) {
    const Store store = host(std::move(listening));
    ::pause();
    ::_exit(0);
  }
  listening.close();
  const Store store = connect(address, Seconds(1));
  store.set("a", "1");
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);  // all its threads stand still
  const auto start = Clock::now();
  EXPECT_THROW(store.set_once("b", "1"), PeerError);
  EXPECT_THROW(store.find("a"), PeerError);  // at once: nobody waits twice for a host that is stuck
  EXPECT_LT(since(start).count(), 1.9);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_P(Stores, ASecondConnectionIsAbandonedWithTheFirst) {
  const Store here = host();
  test::Relay relay(here.address());
  const Store there = connect(relay.address(), Seconds(60));
  const Store second = there.second_connection();
  EXPECT_EQ(second.add("n", 1), 1);
  relay.hold();
  std::jthread other([&] {
    while (!relay.has_held()) std::this_thread::yield();
    there.abandon();
  });
  const auto start = Clock::now();
  EXPECT_THROW(second.add("n", 1), PeerError);
  EXPECT_LT(since(start).count(), 10);
}

// --- the one for members ---

using Way = test::Relay::Way;

// What is asked again may come late, behind something that the client has looked at meanwhile.
TEST(Table, DoesNothingTwiceThatIsAskedAgain) {
  tcp::Table table;
  using What = tcp::TableQuestion::What;
  const tcp::TableQuestion add{
      .client = 1, .number = 1, .what = What::kAdd, .key = "n", .amount = 1};
  EXPECT_EQ(table.answer(add).count, 1);
  EXPECT_EQ(table.answer({.client = 1, .number = 2, .what = What::kFind, .key = "n"}).value, "1");
  EXPECT_EQ(table.answer(add).count, 1);
}

TEST(StoreForMembers, SaysNothingToStrangers) {
  const Store here = Store::host_for_members(listen_on({"127.0.0.1", 0}), "key");
  EXPECT_THROW(Store::connect_as_member(here.address(), "another", Seconds(0.3), Seconds(1)),
               PeerError);
  // More than it lets in, who say what they like.
  std::vector<FileDescriptor> strangers;
  const SocketAddress where(here.address());
  for (int i = 0; i < 100; ++i) {
    strangers.emplace_back(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(strangers.back().get(), where.get(), where.bytes()), 0);
    const std::string words(static_cast<std::size_t>(i), 'x');
    ::send(strangers.back().get(), words.data(), words.size(), MSG_NOSIGNAL);
  }
  const Store there = Store::connect_as_member(here.address(), "key", Seconds(5), Seconds(5));
  EXPECT_EQ(there.add("n", 1), 1);
}

TEST(StoreForMembers, AsksAgainWhatWasDamagedAndDoesItOnce) {
  const Store here = Store::host_for_members(listen_on({"127.0.0.1", 0}), "key");
  test::Relay relay(here.address());
  // On each connection, behind some questions that come through.
  for (const std::uint64_t byte : {450, 461, 499, 530}) {
    relay.damage(Way::kFromCaller, byte);
    relay.damage(Way::kToCaller, byte + 300);
  }
  const Store there = Store::connect_as_member(relay.address(), "key", Seconds(5), Seconds(5));
  for (int i = 1; i <= 100; ++i) {
    EXPECT_EQ(there.add("n", 1), i);
    there.append("list", "x");
  }
  EXPECT_EQ(here.find("list"), std::string(100, 'x'));
}

// The first word of a connection, too.
TEST(StoreForMembers, CallsAgainWhereTheProofWasDamaged) {
  const Store here = Store::host_for_members(listen_on({"127.0.0.1", 0}), "key");
  test::Relay relay(here.address());
  relay.damage_next();
  const Store there = Store::connect_as_member(relay.address(), "key", Seconds(5), Seconds(5));
  EXPECT_EQ(there.add("n", 1), 1);
}

// A call to a host that has gone silent, while the connection is abandoned.
void expect_abandoned(const std::function<void(const Store& there)>& call) {
  const Store here = Store::host_for_members(listen_on({"127.0.0.1", 0}), "key");
  test::Relay relay(here.address());
  const Store there = Store::connect_as_member(relay.address(), "key", Seconds(5), Seconds(60));
  relay.hold();
  std::jthread other([&] {
    while (!relay.has_held()) std::this_thread::yield();
    there.abandon();
  });
  const auto start = Clock::now();
  EXPECT_THROW(call(there), PeerError);
  EXPECT_LT(since(start).count(), 10);
}

TEST(StoreForMembers, WaitsForNoHostOnceItIsAbandoned) {
  expect_abandoned([](const Store& there) { there.add("n", 1); });
}

// Where a machine has lost its power nobody refuses a call.
TEST(StoreForMembers, WaitsForNoSecondConnectionOnceTheFirstIsAbandoned) {
  expect_abandoned([](const Store& there) { there.second_connection(); });
}

// Whoever waits for a host that has ended need not wait for the limit.
TEST(StoreForMembers, KnowsThatItsHostHasEnded) {
  std::optional<Store> here = Store::host_for_members(listen_on({"127.0.0.1", 0}), "key");
  const Store there =
      Store::connect_as_member(here->address(), "key", Seconds(5), Seconds(60));
  here.reset();
  const auto start = Clock::now();
  EXPECT_THROW(there.find("a"), PeerError);
  EXPECT_THROW(there.second_connection(), PeerError);
  EXPECT_LT(since(start).count(), 10);
}

}  // namespace
}  // namespace daso
