// SPDX-License-Identifier: Apache-2.0
#include "daso/base/cpu.h"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdlib>
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

bool amx_advertised() {
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

// Asks the kernel for the tiles and multiplies two of 1 x 1 bf16 pairs. Ends by SIGILL where a
// hypervisor does not play along.
[[noreturn]] void try_amx() {
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  ::signal(SIGILL, SIG_DFL);
  if (::syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) ::_exit(1);
  struct alignas(64) {
    std::array<std::uint8_t, 16> head = {1};  // palette
    std::array<std::uint16_t, 16> row_bytes = {4, 4, 4};
    std::array<std::uint8_t, 16> rows = {1, 1, 1};
  } const tiles;
  asm volatile(
      "ldtilecfg %0\n\ttilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\t"
      "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\ttilerelease"
      :
      : "m"(tiles));
  ::_exit(0);
}

#else

std::vector<std::string> known_sets() { return {}; }
bool amx_advertised() { return false; }
[[noreturn]] void try_amx() { ::_exit(1); }

#endif

// In a child, since the answer may be a signal.
Amx find_amx() {
  if (!amx_advertised()) return Amx::kAbsent;
  const pid_t child = ::fork();
  if (child == 0) try_amx();
  int status = 0;
  const bool ended = child > 0 && ::waitpid(child, &status, 0) == child;
  return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Amx::kUsable : Amx::kTrapped;
}

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
  Cpu cpu{.model = model_name(),
          .cores = usable_cores(),
          .cores_online = static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)),
          .instruction_sets = known_sets(),
          .amx = find_amx()};
  if (cpu.amx == Amx::kUsable) cpu.instruction_sets.emplace_back("amx");
  return cpu;
}

bool bf16_traps() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes the environment later.
  return std::getenv(kCap) == nullptr && find_amx() == Amx::kTrapped;
}

void cap_instruction_sets() {
  if (find_amx() != Amx::kTrapped) return;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): there is no other thread yet, see the header.
  ::setenv(kCap, kCappedTo, /*overwrite=*/0);
}

}  // namespace daso
