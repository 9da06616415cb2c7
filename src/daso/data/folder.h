// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace daso {

// Refuses what is not a folder or holds nothing. `usage` is what --data takes, like idx:DIR.
void require_folder(const std::filesystem::path& folder, const std::string& usage);

// The first of these names that the folder holds. Throws ConfigError with what is there instead.
std::filesystem::path first_there(const std::filesystem::path& folder,
                                  const std::vector<std::string>& names);

}  // namespace daso
