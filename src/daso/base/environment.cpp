// SPDX-License-Identifier: Apache-2.0
#include "daso/base/environment.h"

#include <unistd.h>

#include <limits>
#include <string_view>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {

Environment this_environment() {
  Environment environment;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return environment;
}

std::optional<std::string> find(const Environment& environment, const std::string& name) {
  const auto entry = environment.find(name);
  if (entry == environment.end() || entry->second.empty()) return std::nullopt;
  return entry->second;
}

std::optional<int> find_integer(const Environment& environment, const std::string& name) {
  const std::optional<std::string> text = find(environment, name);
  if (!text) return std::nullopt;
  const std::optional<std::int64_t> value = parse_integer(*text);
  require(value && *value >= std::numeric_limits<int>::min() &&
              *value <= std::numeric_limits<int>::max(),
          "environment variable {} is '{}'; it must be a whole number", name, *text);
  return static_cast<int>(*value);
}

}  // namespace daso
