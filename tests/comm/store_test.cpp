// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>

#include "daso/base/error.h"

namespace daso {
namespace {

Store host() { return Store::host(listen_on({"127.0.0.1", 0})); }

TEST(Store, IsOneTableForAllConnections) {
  const Store here = host();
  const Store there = Store::connect(here.address(), Seconds(5));
  here.set("a", "1");
  EXPECT_EQ(here.find("a"), "1");  // nobody acknowledges a set: only now it is in the table
  EXPECT_EQ(there.find("a"), "1");
  EXPECT_FALSE(there.find("b"));
  EXPECT_EQ(there.add("n", 2), 2);
  EXPECT_EQ(here.second_connection().add("n", 3), 5);
  there.erase("a");
  EXPECT_FALSE(here.find("a"));
}

TEST(Store, SetsOnceForTheFirstOnly) {
  const Store store = host();
  EXPECT_EQ(store.set_once("a", "first"), "first");
  EXPECT_EQ(store.set_once("a", "second"), "first");
}

TEST(Store, AppendsWhatEveryConnectionAdds) {
  const Store here = host();
  const Store there = Store::connect(here.address(), Seconds(5));
  here.under("x").append("a", "1\n");
  EXPECT_EQ(here.find("x/a"), "1\n");  // nobody acknowledges it either
  there.append("x/a", "2\n");
  EXPECT_EQ(there.find("x/a"), "1\n2\n");
}

TEST(Store, KeepsPrefixesApart) {
  const Store store = host();
  store.under("x").set("a", "1");
  EXPECT_FALSE(store.under("y").find("a"));
  EXPECT_EQ(store.find("x/a"), "1");
  EXPECT_EQ(store.under("x").under("y").set_once("b", "2"), "2");
  EXPECT_EQ(store.find("x/y/b"), "2");
}

TEST(Store, ListensOnTheAddressItWasGivenOnly) {
  const Store store = host();
  EXPECT_EQ(store.address().host, "127.0.0.1");
  EXPECT_THROW(Store::connect({"127.0.0.2", store.address().port}, Seconds(0.3)), PeerError);
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

TEST(Store, GivesUpItsPortWhenItDies) {
  Address address;
  {
    const Store store = host();
    address = store.address();
  }
  const FileDescriptor again = listen_on(address);
  EXPECT_EQ(bound_address(again).port, address.port);
}

// A host that was stopped for longer than the limit, and goes on.
TEST(Store, ALateAnswerMakesTheConnectionGoodAgain) {
  FileDescriptor listening = listen_on({"127.0.0.1", 0});
  const Address address = bound_address(listening);
  const pid_t child = ::fork();
  if (child == 0) {
    const Store store = Store::host(std::move(listening));
    ::pause();
    ::_exit(0);
  }
  listening.close();
  const Store store = Store::connect(address, Seconds(0.3));
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
TEST(Store, AHostThatIsStoppedBecomesAnErrorWithinTheLimit) {
  FileDescriptor listening = listen_on({"127.0.0.1", 0});
  const Address address = bound_address(listening);
  const pid_t child = ::fork();
  if (child == 0) {
    const Store store = Store::host(std::move(listening));
    ::pause();
    ::_exit(0);
  }
  listening.close();
  const Store store = Store::connect(address, Seconds(1));
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

}  // namespace
}  // namespace daso
