// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "daso/base/worker.h"
#include "daso/comm/tcp/mailbox.h"

namespace daso::tcp {

// What moves the letters of all groups of one rank, and the thread that adds up what they bring.
struct Engine {
  explicit Engine(MailboxOptions options) : mailbox(std::move(options)), adder("daso adder") {}
  // The adder may still write letters, which are then refused.
  ~Engine() { mailbox.stop(); }

  Mailbox mailbox;
  Worker adder;
};

// Letters that belong together: sent and awaited at once, and what is to be done when all of them
// are through.
struct Round {
  struct Send {
    int to = 0;
    std::span<const std::byte> bytes;
  };
  struct Receive {
    int from = 0;
    std::span<std::byte> into;
  };
  std::vector<Send> sends;
  std::shared_ptr<const void> stays = nullptr;  // as Letter has it
  std::vector<Receive> receives;
  // On the adder's thread; may begin another round. Without it `done` is called at once. It and
  // `done` hold the memory of the letters.
  std::function<void()> then;
  Done done;  // with an error, or when there is nothing to do then
};

// All letters of a round have one tag. The engine must outlive it, as a group's does.
void begin(Engine& engine, const Tag& tag, Round round);

}  // namespace daso::tcp
