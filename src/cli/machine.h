// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Facts about the machine and the program on it.
namespace daso::cli {

// What is what, as pairs of name and version.
std::vector<std::pair<std::string, std::string>> versions();

struct Memory {
  std::int64_t total_bytes = 0;
  std::int64_t available_bytes = 0;
};
Memory this_memory();

struct Gpus {
  std::vector<std::string> models;
  std::string note;  // what was found, or why there is none
};
Gpus these_gpus();

// A Debian package that was not there when the program was built.
struct MissingPackage {
  std::string name;
  std::string purpose;
};
// From lines like "libopenmpi-dev backend mpi".
std::vector<MissingPackage> parse_missing_packages(const std::string& text);
// What set-up has noted in the build folder; nothing for an installed program.
std::vector<MissingPackage> missing_packages();

}  // namespace daso::cli
