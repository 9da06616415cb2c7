// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>

#include "daso/base/abandonable.h"
#include "daso/base/seconds.h"

namespace daso {

// A disk, which may not answer: calls to it are abandoned where they hang, with a sentence that
// says so, and so must own all that they use. For one thread at a time.
class Disk {
 public:
  Disk() = default;
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  // What `act` returns or throws. Error naming `what` is done, like "writing FILE", where that is
  // not over within the limit; from then on at once, until it is.
  template <typename Act>
  std::invoke_result_t<const Act&> within(Seconds limit, const std::string& what, Act act) {
    using Result = std::invoke_result_t<const Act&>;
    if constexpr (std::is_void_v<Result>) {
      run(limit, what, std::move(act));
    } else {
      const auto result = std::make_shared<std::optional<Result>>();
      run(limit, what, [result, act = std::move(act)] { result->emplace(act()); });
      return std::move(result->value());
    }
  }

  // Who waits, now or later, waits for a second at most. From any thread.
  void give_up() { given_up_.request_stop(); }

 private:
  void run(Seconds limit, const std::string& what, std::function<void()> act);

  std::stop_source given_up_;
  std::shared_ptr<Abandonable> calls_;  // made by the first of them
};

}  // namespace daso
