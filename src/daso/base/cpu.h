// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace daso {

// Whether the CPU's matrix unit (AMX) can be used. Some virtual machines advertise it although its
// instructions trap there; oneDNN believes them, and bf16 arithmetic ends the process with SIGILL.
enum class Amx { kAbsent, kUsable, kTrapped };

struct Cpu {
  std::string model;
  int cores = 0;                              // that this process may use
  int cores_online = 0;                       // that the machine has
  std::vector<std::string> instruction_sets;  // of those that matter here: avx2, avx512f, ...
  Amx amx = Amx::kAbsent;
};

Cpu this_cpu();

// Keeps oneDNN away from AMX where it traps, for this process and those that it starts; a user's
// own ONEDNN_MAX_CPU_ISA stands. To be called before other threads are there and before any
// arithmetic.
void cap_instruction_sets();
inline constexpr const char* kCap = "ONEDNN_MAX_CPU_ISA";
inline constexpr const char* kCappedTo = "AVX512_CORE_BF16";

// Whether bf16 arithmetic would end this process: AMX traps, and nobody keeps oneDNN away from it.
bool bf16_traps();

}  // namespace daso
