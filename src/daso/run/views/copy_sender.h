// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "daso/base/seconds.h"
#include "daso/policy/exchange_options.h"
#include "daso/tensor/state.h"

namespace daso {

namespace tcp {
class Mailbox;  // in comm/tcp/mailbox.h
}

// Sends a copy of the run to a node that is to join, and the answers of the exchanges that follow,
// while this node trains on: in the background, and for half of the time at most, so that exchanges
// have the rest of the link. Not for several threads at once.
class CopySender {
 public:
  // To this place (copy_letters.h), in time, or else there is no copy; `state` is not changed any
  // more. Answers are those of exchanges with these options.
  CopySender(const std::string& place, const std::string& key, Seconds limit,
             const ExchangeOptions& exchange, State state);
  CopySender(const CopySender&) = delete;
  CopySender& operator=(const CopySender&) = delete;
  ~CopySender();  // breaks off what is not sent

  void add(const at::Tensor& answer);
  // Without any pause from now on; returns the number of answers so far.
  std::int64_t hurry();
  // False: the other end is gone, or too slow to keep up.
  bool holds() const;

 private:
  void work(const std::stop_token& stop);
  void send_all(const std::stop_token& stop);
  void send(std::span<const std::byte> piece);
  void pause(Seconds length, const std::stop_token& stop);
  std::optional<at::Tensor> next_answer(const std::stop_token& stop);

  const std::string place_;
  const std::string key_;
  const Seconds limit_;
  const ExchangeOptions exchange_;
  State state_;  // the thread's, until it is sent
  const std::size_t bytes_;
  std::uint32_t letters_ = 0;  // the thread's: those sent so far
  mutable std::mutex mutex_;   // guards what follows
  std::condition_variable_any changed_;
  std::unique_ptr<tcp::Mailbox> mailbox_;
  std::deque<at::Tensor> answers_;
  std::size_t waiting_ = 0;  // bytes of those
  std::int64_t added_ = 0;
  bool hurries_ = false;
  bool holds_ = true;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace daso
