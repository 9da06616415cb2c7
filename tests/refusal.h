// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "daso/base/error.h"

namespace daso::test {

// The message with which an action is refused.
template <typename Act>
std::string refusal(const Act& act) {
  try {
    act();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace daso::test
