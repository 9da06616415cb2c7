// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "daso/comm/tcp/frame.h"
#include "daso/launch/switchboard.h"

// The letters on a line between launchers.
namespace daso {

inline constexpr tcp::Tag kGreetingTag{.group = 0, .number = 1};  // the first, from either end
inline constexpr tcp::Tag kMessageTag{.group = 0, .number = 2};   // all that follow

struct SignedGreeting {
  membership::Member from;
  Greeting greeting;
};

inline constexpr std::size_t kMostGreetingBytes = 2 * kMostGreetingText;

std::vector<std::byte> encode(const SignedGreeting& greeting);
// None for what encode() does not write.
std::optional<SignedGreeting> decode_greeting(std::span<const std::byte> bytes);

}  // namespace daso
