// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

namespace daso {

// Variables as a value, so that what depends on them can be tested without setting any.
using Environment = std::map<std::string, std::string>;

Environment this_environment();

// The variable's value, or nothing where it is unset or empty.
std::optional<std::string> find(const Environment& environment, const std::string& name);

// The same as a whole number; throws ConfigError naming the variable if it is not one.
std::optional<int> find_integer(const Environment& environment, const std::string& name);

}  // namespace daso
