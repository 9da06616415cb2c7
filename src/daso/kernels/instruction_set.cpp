// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/instruction_set.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace daso {

#ifdef __x86_64__
namespace {

// Clang's __builtin_cpu_supports() does not know it. Asked once: in a virtual machine the question
// goes to its host, which takes microseconds.
bool has_f16c() {
  static const bool answer = [] {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  }();
  return answer;
}

}  // namespace
#endif

std::string_view name_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kScalar:
      break;
  }
  return "scalar";
}

bool is_supported(InstructionSet set) {
#ifdef __x86_64__
  switch (set) {
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && has_f16c();
    case InstructionSet::kScalar:
      break;
  }
#endif
  return set == InstructionSet::kScalar;
}

InstructionSet best_instruction_set() {
  for (const InstructionSet set : {InstructionSet::kAvx512, InstructionSet::kAvx2}) {
    if (is_supported(set)) return set;
  }
  return InstructionSet::kScalar;
}

std::vector<InstructionSet> supported_instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set :
       {InstructionSet::kScalar, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (is_supported(set)) sets.push_back(set);
  }
  return sets;
}

}  // namespace daso
