// SPDX-License-Identifier: Apache-2.0
#include "daso/data/folder.h"

#include <algorithm>
#include <system_error>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code problem;
  for (fs::directory_iterator at(folder, problem), end; !problem && at != end;
       at.increment(problem)) {
    names.push_back(at->path().filename().string());
  }
  require(!problem, "{}: cannot be read: {}", folder.string(), problem.message());
  std::ranges::sort(names);
  return names;
}

void require_folder(const fs::path& folder, const std::string& usage) {
  require(!folder.empty(), "no folder is named; write {}", usage);
  std::error_code problem;
  const fs::file_status status = fs::status(folder, problem);
  require(fs::exists(status), "{}: there is no such folder ({})", folder.string(), usage);
  require(fs::is_directory(status), "{}: not a folder ({})", folder.string(), usage);
  require(!names_in(folder).empty(), "{}: the folder is empty ({})", folder.string(), usage);
}

fs::path first_there(const fs::path& folder, const std::vector<std::string>& names) {
  constexpr std::size_t kNamesShown = 8;
  for (const std::string& name : names) {
    std::error_code problem;
    if (fs::exists(folder / name, problem)) return folder / name;
  }
  std::vector<std::string> there = names_in(folder);
  if (there.size() > kNamesShown) {
    there.resize(kNamesShown);
    there.emplace_back("...");
  }
  throw ConfigError(fmt::format("{}: holds no {}; found: {}", folder.string(), join(names, " or "),
                                there.empty() ? "nothing" : join(there, ", ")));
}

}  // namespace daso
