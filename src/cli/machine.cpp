// SPDX-License-Identifier: Apache-2.0
#include "cli/machine.h"

#include <sys/utsname.h>
#include <torch/version.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "daso/base/error.h"
#include "daso/base/gpus.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/base/version.h"
#include "daso/tensor/device.h"

namespace daso::cli {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The value of a line like `key:   value` or `key=value`; empty if there is none.
std::string value_of(const std::string& text, const std::string& key, char separator) {
  for (const std::string& line : split(text, '\n')) {
    const std::size_t at = line.find(separator);
    if (at == std::string::npos || trim(line.substr(0, at)) != key) continue;
    return std::string(trim(line.substr(at + 1)));
  }
  return "";
}

std::string system_name() {
  std::string name = value_of(read("/etc/os-release"), "PRETTY_NAME", '=');
  std::erase(name, '"');
  return name.empty() ? "unknown" : name;
}

std::string kernel_name() {
  utsname name{};
  return ::uname(&name) == 0 ? fmt::format("{} {} {}", name.sysname, name.release, name.machine)
                             : "unknown";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> versions() {
  return {{"daso", kVersion},
          {"libtorch", TORCH_VERSION},
          {"compiler", "g++ " __VERSION__},
          {"build_type", DASO_BUILD_TYPE},
          {"system", system_name()},
          {"kernel", kernel_name()}};
}

Memory this_memory() {
  constexpr std::int64_t kKilobyte = 1024;
  const std::string text = read("/proc/meminfo");
  const auto bytes = [&](const char* key) {
    const std::string value = value_of(text, key, ':');
    return parse_integer(value.substr(0, value.find(' '))).value_or(0) * kKilobyte;
  };
  return {.total_bytes = bytes("MemTotal"), .available_bytes = bytes("MemAvailable")};
}

GpuUse use_of_gpus() {
  GpuUse use;
  const GpuDriver& driver = gpu_driver();
  use.problem = driver.problem;
  if (driver.gpus.empty()) return use;
  try {
    const DeviceModule& module = device_module();
    use.module = module.facts();
    use.module.emplace(use.module.begin(), "built", module.built);
    use.architectures = module.architectures;
    choose_gpu({}, 0, driver, module);
  } catch (const ConfigError& error) {
    use.problem = error.what();
  }
  return use;
}

std::vector<MissingPackage> parse_missing_packages(const std::string& text) {
  std::vector<MissingPackage> packages;
  for (const std::string& line : split(text, '\n')) {
    const std::string_view words = trim(line);
    if (words.empty()) continue;
    const std::size_t space = std::min(words.find(' '), words.size());
    packages.push_back(
        {std::string(words.substr(0, space)), std::string(trim(words.substr(space)))});
  }
  return packages;
}

std::vector<MissingPackage> missing_packages() {
  // build/release/bin/daso lies beside build/missing-packages.
  const fs::path program = own_program();
  const fs::path build = program.parent_path().parent_path().parent_path();
  return parse_missing_packages(read(build / "missing-packages"));
}

}  // namespace daso::cli
