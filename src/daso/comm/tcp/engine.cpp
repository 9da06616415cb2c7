// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/engine.h"

namespace daso::tcp {
namespace {

// Counts the letters of a round that are not through.
class Count {
 public:
  Count(Engine& engine, std::size_t letters, std::function<void()> then, Done done)
      : engine_(engine), letters_(letters), then_(std::move(then)), done_(std::move(done)) {}

  void end_letter(const std::exception_ptr& error) {
    {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = error;
      if (--letters_ > 0) return;
    }
    if (error_ || !then_) return done_(error_);
    engine_.adder.post([then = std::move(then_), done = std::move(done_)] {
      try {
        then();
      } catch (...) {
        done(std::current_exception());
      }
    });
  }

 private:
  Engine& engine_;
  std::mutex mutex_;  // letters end on the clerk's thread, or where they are refused
  std::size_t letters_;
  std::exception_ptr error_;
  std::function<void()> then_;
  Done done_;
};

}  // namespace

void begin(Engine& engine, const Tag& tag, Round round) {
  // One more, for the time in which not all of them have been given to the mailbox.
  const auto count = std::make_shared<Count>(engine, round.sends.size() + round.receives.size() + 1,
                                             std::move(round.then), std::move(round.done));
  const Done end = [count](const std::exception_ptr& error) { count->end_letter(error); };
  for (const Round::Receive& one : round.receives) {
    engine.mailbox.expect(one.from, tag, one.into, end);
  }
  for (const Round::Send& one : round.sends) {
    engine.mailbox.post(one.to,
                        {.tag = tag, .bytes = one.bytes, .done = end, .stays = round.stays});
  }
  count->end_letter(nullptr);
}

}  // namespace daso::tcp
