// SPDX-License-Identifier: Apache-2.0
#include "daso/base/while_waiting.h"

#include <utility>

namespace daso {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{50};

thread_local WhileWaiting* current = nullptr;

}  // namespace

WhileWaiting::WhileWaiting(std::function<void()> look)
    : look_(std::move(look)), outer_(std::exchange(current, this)) {}

WhileWaiting::~WhileWaiting() { current = outer_; }

Clock::time_point WhileWaiting::pause(Clock::time_point deadline) {
  return current == nullptr ? deadline : std::min(deadline, Clock::now() + kBetweenLooks);
}

void WhileWaiting::look() {
  if (current != nullptr) current->look_();
}

}  // namespace daso
