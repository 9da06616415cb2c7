// SPDX-License-Identifier: Apache-2.0
#include "golden_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace daso::test {

nlohmann::json golden(const std::string& name) {
  std::ifstream file(std::filesystem::path(DASO_GOLDEN) / name);
  return nlohmann::json::parse(file);
}

std::vector<std::string> training_cases() {
  const std::set<std::string> others = {"periods.json", "schedules.json", "wire.json"};
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(DASO_GOLDEN)) {
    const std::string name = entry.path().filename().string();
    if (!others.contains(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace daso::test
