// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The GPUs of this machine, as NVIDIA's driver tells of them. It is asked directly: whether there
// is a GPU must be known before anything of CUDA is loaded, which are gigabytes.
namespace daso {

inline constexpr const char* kGpuDriver = "libcuda.so.1";

struct Gpu {
  std::string name;  // "NVIDIA H200"
  int major = 0;     // compute capability
  int minor = 0;
  std::int64_t memory_bytes = 0;
  std::string bus;  // PCI address, which no other GPU of the machine has
};

struct GpuDriver {
  bool there = false;     // its library can be loaded
  std::string release;    // "580.95.05"; empty: not known
  int cuda = 0;           // the newest CUDA that it knows, as 13000
  std::vector<Gpu> gpus;  // those that this process may use, in CUDA's order
  std::string problem;    // why there are none, such as "there is no NVIDIA driver here"
};

// Looks once; the library stays loaded where it is there.
const GpuDriver& gpu_driver();

// Pairs of GPUs, by their numbers, that reach each other's memory directly.
std::vector<std::pair<int, int>> gpu_peers();

// 13000 gives "13.0".
std::string cuda_version_text(int version);

// Whether code that was built for these architectures, as CMake names them ("80-real 90 100a"),
// runs on a GPU: machine code on its own and higher minor versions of one major version, what was
// built with "a" on nothing else, and PTX, which is there but for "-real", on whatever is newer.
bool built_for(std::string_view architectures, const Gpu& gpu);

}  // namespace daso
