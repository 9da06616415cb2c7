// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

namespace daso {

// What to tell people of an error that ends a rank: what() of ours, the first line of LibTorch's,
// without the stack that follows it. Where memory was short it says so, and what to do.
std::string message_of(const std::exception& error);

}  // namespace daso
