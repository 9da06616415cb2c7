// SPDX-License-Identifier: Apache-2.0
#include "cli/run_folder.h"

#include <array>
#include <chrono>
#include <ctime>
#include <system_error>

#include "daso/base/error.h"
#include "daso/comm/gather_text.h"

namespace daso::cli {

namespace fs = std::filesystem;

namespace {

// runs/2026-11-15-101530
fs::path default_folder() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d-%H%M%S", &local);
  return fs::path(kRuns) / text.data();
}

}  // namespace

fs::path agreed_folder(World& world, const fs::path& asked) {
  const std::string own = (asked.empty() ? default_folder() : asked).string();
  return gather_text(world.everyone(), own, world.limit()).front();
}

void make_folder(const std::string& asked_by, const fs::path& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  require(!problem, "{} {}: the folder cannot be made: {}; name another one", asked_by,
          folder.string(), problem.message());
}

fs::path newest_run() {
  fs::path newest;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(kRuns, error)) {
    if (fs::exists(entry.path() / kConfigFile)) newest = std::max(newest, entry.path());
  }
  require(!newest.empty(), "--resume: there is no run in {}/; say which with --out", kRuns);
  return newest;
}

fs::path run_of(const fs::path& checkpoint) {
  return fs::absolute(checkpoint / ".." / "..").lexically_normal();
}

}  // namespace daso::cli
