// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

// The golden cases of algorithm.md 8; DASO_GOLDEN is their folder.
namespace daso::test {

// Throws where the file is missing or no JSON.
nlohmann::json golden(const std::string& name);

// The files that hold a training case each.
std::vector<std::string> training_cases();

}  // namespace daso::test
