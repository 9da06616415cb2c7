// SPDX-License-Identifier: Apache-2.0
#include "daso/base/cpu.h"

#include <sched.h>
#include <unistd.h>

#include <fstream>

#include "daso/base/text.h"
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace daso {
namespace {

#ifdef __x86_64__

std::vector<std::string> known_sets() {
  std::vector<std::string> sets;
  if (__builtin_cpu_supports("avx2")) sets.emplace_back("avx2");
  if (__builtin_cpu_supports("avx512f")) sets.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512bf16")) sets.emplace_back("avx512_bf16");
  return sets;
}

bool advertises_amx() {
  constexpr unsigned kFeatures = 7;
  constexpr unsigned kBf16 = 1U << 22U;
  constexpr unsigned kTile = 1U << 24U;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) == 0) return false;
  return (d & kBf16) != 0 && (d & kTile) != 0;
}

#else

std::vector<std::string> known_sets() { return {}; }
bool advertises_amx() { return false; }

#endif

std::string model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return std::string(trim(line.substr(line.find(':') + 1)));
  }
  return "unknown";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

}  // namespace

Cpu this_cpu() {
  return {.model = model_name(),
          .cores = usable_cores(),
          .cores_online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
          .instruction_sets = known_sets()};
}

bool amx_advertised() { return advertises_amx(); }

}  // namespace daso
