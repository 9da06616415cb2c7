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

// What GPUs there are is told by gpu_driver(); this is what the program makes of them.
struct GpuUse {
  std::string problem;  // why none can be used; empty: they can
  // What the CUDA module was built with and for, and what it brings. Empty where it is not there or
  // was not loaded: where there is no GPU it is not.
  std::vector<std::pair<std::string, std::string>> module;
  std::string architectures;  // that it was built for
};
GpuUse use_of_gpus();

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
