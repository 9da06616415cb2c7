// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "daso/base/environment.h"

// Whether arithmetic in bf16 works on this processor. Some virtual machines advertise the matrix
// unit AMX but not the sizes of its tiles: programs by hand pass, oneDNN's trap, and LibTorch's
// bf16 ends the process with SIGILL. So what will run is tried, a convolution and a matrix product
// in a child process, and oneDNN is kept away from AMX where that dies.
namespace daso {

enum class Amx {
  kAbsent,   // not advertised: bf16 takes other ways
  kUntried,  // advertised, and nobody has tried it
  kUsable,   // bf16 was tried and works
  kCapped,   // it dies, and works without AMX: oneDNN is kept away from it
  kTrapped,  // it dies in spite of the cap, ours or the user's
};

// ONEDNN_MAX_CPU_ISA is what oneDNN reads, once, at the first arithmetic; a user's own stands. The
// verdict of a trial goes on to child processes, so that the ranks of a job need not try again.
inline constexpr const char* kCap = "ONEDNN_MAX_CPU_ISA";
inline constexpr const char* kCappedTo = "AVX512_CORE_BF16";
inline constexpr const char* kVerdict = "DASO_AMX";

// Whether bf16 arithmetic survives with these variables. True or false; never throws.
using Bf16Trial = std::function<bool(const Environment& variables)>;

// The decision: what a processor that advertises AMX or not comes to, and in `variables` the cap
// and the verdict to set. Tries at most twice, and not where a verdict is there already.
Amx decide_bf16(bool amx_advertised, Environment& variables, const Bf16Trial& trial);
// The same without trying.
Amx find_amx(bool amx_advertised, const Environment& variables);
Amx find_amx();  // of this process

// The decision for this process and those that it starts, by a trial in a fork of it. To be called
// before bf16 is used, at the beginning of main: before any arithmetic, and before other threads.
// Where there are some nothing is tried, and AMX is left alone.
Amx cap_instruction_sets();

// Whether bf16 arithmetic would, or might, end this process: nobody has tried it or set a cap.
bool bf16_traps();

// A sentence about what was found, for people.
std::string text_of(Amx amx);

// Calls it in a fork of this process; false if that dies, throws or takes more than 30 s.
bool survives(const std::function<void()>& act);

}  // namespace daso
