// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <future>

#include "daso/base/error.h"
#include "daso/comm/tcp/mailbox.h"

// What tests of mailboxes have in common.
namespace daso::tcp {

inline constexpr Seconds kLimit{10};

// One rank's mailbox, and where it is.
struct Rank {
  explicit Rank(int rank, Limits limits = {}, const std::string& key = "key") {
    FileDescriptor listening = listen_on({"127.0.0.1", 0});
    address = bound_address(listening);
    mailbox = std::make_unique<Mailbox>(MailboxOptions{
        .rank = rank, .view = 1, .key = key, .listening = std::move(listening), .limits = limits});
  }
  Address address;
  std::unique_ptr<Mailbox> mailbox;
};

inline void connect(Rank& lower, Rank& higher) {
  auto other = std::async([&] { lower.mailbox->connect({{1, higher.address}}, kLimit); });
  higher.mailbox->connect({{0, lower.address}}, kLimit);
  other.get();
}

// The end of one letter, to be waited for.
class End {
 public:
  Done done() {
    return [promise = promise_](const std::exception_ptr& error) {
      error ? promise->set_exception(error) : promise->set_value();
    };
  }
  void wait() {
    auto future = promise_->get_future();
    ASSERT_EQ(future.wait_for(kLimit), std::future_status::ready);
    future.get();
  }
  std::string problem() {
    auto future = promise_->get_future();
    if (future.wait_for(kLimit) != std::future_status::ready) return "still waiting";
    try {
      future.get();
      return "";
    } catch (const PeerError& error) {
      return error.what();
    }
  }

 private:
  std::shared_ptr<std::promise<void>> promise_ = std::make_shared<std::promise<void>>();
};

inline std::vector<std::byte> numbers(std::size_t length, int seed) {
  std::vector<std::byte> bytes(length);
  for (std::size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<std::byte>(i * 31 + static_cast<std::size_t>(seed));
  }
  return bytes;
}

}  // namespace daso::tcp
