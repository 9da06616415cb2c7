// SPDX-License-Identifier: Apache-2.0
#include "cli/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "cli/config_file.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/nets/make_network.h"
#include "daso/run/settings.h"

namespace daso::cli {

namespace fs = std::filesystem;

namespace {

// A run whose model is a program's own can only be continued by that program.
bool names_its_model(const fs::path& config) {
  const std::vector<std::string> names = network_names();
  const std::string model = configured(config.string(), "model").value_or("");
  return std::find(names.begin(), names.end(), model) != names.end();
}

}  // namespace

void make_folder(const std::string& asked_by, const fs::path& folder) {
  try {
    daso::make_folder(folder);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("{} {}; name another one", asked_by, error.what()));
  }
  // Of one that was there before.
  const bool writable = ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
  require(writable, "{} {}: nothing can be written there: {}; name another folder", asked_by,
          folder.string(), std::generic_category().message(errno));
}

fs::path newest_run() {
  fs::path newest;
  if (is_folder(kRuns)) {
    for (const std::string& name : names_in(kRuns)) {  // the last one is the newest
      const fs::path config = fs::path(kRuns) / name / kConfigFile;
      if (is_there(config) && names_its_model(config)) newest = config.parent_path();
    }
  }
  require(!newest.empty(), "--resume: there is no run in {}/; say which with --out", kRuns);
  return newest;
}

fs::path run_of(const fs::path& checkpoint) {
  return (current_folder() / checkpoint / ".." / "..").lexically_normal();
}

}  // namespace daso::cli
