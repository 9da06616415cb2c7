// SPDX-License-Identifier: Apache-2.0
#include "daso/record/output_folder.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <ctime>

#include "daso/base/paths.h"
#include "daso/comm/gather_text.h"

namespace daso {

namespace fs = std::filesystem;

fs::path make_default_folder() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d-%H%M%S", &local);
  const fs::path first = fs::path(kRuns) / text.data();
  fs::path folder = first;
  make_folder(kRuns);
  for (int number = 2; !make_new_folder(folder); ++number) {
    folder = fmt::format("{}-{}", first.string(), number);
  }
  return folder;
}

std::filesystem::path agreed_folder(World& world, const std::filesystem::path& asked) {
  const bool choose = asked.empty() && world.rank() == 0;
  const std::string own = (choose ? make_default_folder() : asked).string();
  return gather_text(world.everyone(), own, world.limit()).front();
}

}  // namespace daso
