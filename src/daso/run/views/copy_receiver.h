// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "daso/comm/views.h"
#include "daso/comm/worlds.h"
#include "daso/policy/exchange_options.h"
#include "daso/run/settings.h"
#include "daso/tensor/state.h"

namespace daso {

namespace tcp {
class Mailbox;  // in comm/tcp/mailbox.h
}

// What a process has been given ahead that is to join a run: a copy, whose anchor it moves with the
// others' from then on, in the background, until it enters a view (copy_letters.h).
class CopyReceiver {
 public:
  // Null for a process that does not join, that is given everything by another rank of its node, or
  // whose strategy has nothing that could be given ahead. Asks for a copy before anything else.
  static std::unique_ptr<CopyReceiver> open(const Worlds& worlds, const Settings& settings);

  CopyReceiver(std::shared_ptr<ViewSource> source, WorldOptions options);
  CopyReceiver(const CopyReceiver&) = delete;
  CopyReceiver& operator=(const CopyReceiver&) = delete;
  ~CopyReceiver();

  // Of a copy that is here and has caught up; empty: there is none.
  std::string place() const;
  // The same, once it has been moved by so many answers. Throws PeerError if they do not come.
  State take(std::int64_t answers, Seconds limit);

 private:
  void work();
  bool open_mailbox();
  at::Tensor receive_copy();  // gives its anchor
  void receive_answer(const at::Tensor& anchor);
  void receive_into(const at::Tensor& tensor, Seconds limit);

  const std::shared_ptr<ViewSource> source_;
  const WorldOptions options_;
  ExchangeOptions exchange_;    // these two are the thread's
  bool has_caught_up_ = false;  // the launcher was told so
  mutable std::mutex mutex_;    // guards what follows
  std::condition_variable changed_;
  bool stops_ = false;
  std::unique_ptr<tcp::Mailbox> mailbox_;
  std::string place_;
  bool here_ = false;  // the copy is, up to here
  State state_;
  std::int64_t answers_ = 0;  // that its anchor was moved by
  std::jthread thread_;       // last: it uses all of the above
};

}  // namespace daso
