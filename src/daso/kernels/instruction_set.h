// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

// Which of a kernel's versions this processor can run. Every kernel gives the same bits in all of
// them; they differ in speed alone. A function that has versions takes the set as its last
// argument, so that a test can ask for each; everybody else leaves it at the best one.
namespace daso {

enum class InstructionSet {
  kScalar,  // plain C++, runs everywhere
  kAvx2,    // with F16C
  kAvx512,  // the foundation, AVX512F
};

std::string_view name_of(InstructionSet set);

bool is_supported(InstructionSet set);
InstructionSet best_instruction_set();
std::vector<InstructionSet> supported_instruction_sets();

}  // namespace daso
