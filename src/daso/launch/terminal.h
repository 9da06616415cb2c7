// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace daso {

// The width of the terminal that standard output goes to, also through our launcher; none if it
// goes elsewhere.
std::optional<int> terminal_columns();

}  // namespace daso
