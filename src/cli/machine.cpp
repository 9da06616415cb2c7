// SPDX-License-Identifier: Apache-2.0
#include "cli/machine.h"

#include <dlfcn.h>
#include <sys/utsname.h>
#include <torch/version.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/base/version.h"

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

bool driver_loads() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return false;
  ::dlclose(driver);
  return true;
}

// /dev/nvidia0, /dev/nvidia1, ...
int device_files() {
  constexpr std::string_view kName = "nvidia";
  int files = 0;
  for (const std::string& name : names_in("/dev")) {
    if (name.starts_with(kName) && parse_integer(name.substr(kName.size()))) ++files;
  }
  return files;
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

Gpus these_gpus() {
  Gpus gpus;
  const fs::path driver = "/proc/driver/nvidia/gpus";
  if (is_folder(driver)) {
    for (const std::string& name : names_in(driver)) {
      gpus.models.push_back(value_of(read(driver / name / "information"), "Model", ':'));
    }
  }
  const int files = device_files();
  const bool loads = driver_loads();
  if (gpus.models.empty() && files == 0 && !loads) {
    gpus.note = "none (no NVIDIA driver here); everything runs on the CPU";
  } else {
    gpus.note = fmt::format(
        "{} device files, driver library libcuda.so.1 {}; not used by this "
        "version, everything runs on the CPU",
        files, loads ? "loads" : "does not load");
  }
  return gpus;
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
