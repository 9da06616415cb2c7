// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace daso {

// What a folder holds, in order of the alphabet, since the system's order means nothing. Throws
// ConfigError.
std::vector<std::string> names_in(const std::filesystem::path& folder);

// Refuses what is not a folder or holds nothing. `usage` is what --data takes, like idx:DIR.
void require_folder(const std::filesystem::path& folder, const std::string& usage);

// The first of these names that the folder holds. Throws ConfigError with what is there instead.
std::filesystem::path first_there(const std::filesystem::path& folder,
                                  const std::vector<std::string>& names);

}  // namespace daso
