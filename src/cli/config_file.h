// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace daso::cli {

// Gives the app's flags the values that a TOML file has for them, by their long names without the
// dashes; flags on the command line win, and keys in `except` do not count. To be called after the
// app has parsed. Throws ConfigError for a file that cannot be read and a key that is no flag, with
// the nearest one.
void apply_config_file(CLI::App& app, const std::string& path,
                       const std::vector<std::string>& except = {});

// The value that such a file has for a key, if there are both. Throws ConfigError for a file that
// cannot be understood.
std::optional<std::string> configured(const std::string& path, const std::string& key);

}  // namespace daso::cli
