// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/kernels.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "daso/base/error.h"

namespace daso {
namespace {

#ifdef __x86_64__

// Clang's __builtin_cpu_supports() does not know it.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

bool is_supported(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") != 0;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") != 0 && has_f16c();
    case InstructionSet::kScalar:
      break;
  }
  return true;
}

const Kernels& table_of(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512:
      return kernels::avx512_table();
    case InstructionSet::kAvx2:
      return kernels::avx2_table();
    case InstructionSet::kScalar:
      break;
  }
  return kernels::scalar_table();
}

#else

bool is_supported(InstructionSet set) { return set == InstructionSet::kScalar; }
const Kernels& table_of(InstructionSet /*set*/) { return kernels::scalar_table(); }

#endif

}  // namespace

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

std::vector<InstructionSet> supported_instruction_sets() {
  std::vector<InstructionSet> sets;
  for (const InstructionSet set :
       {InstructionSet::kScalar, InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (is_supported(set)) sets.push_back(set);
  }
  return sets;
}

InstructionSet best_instruction_set() { return supported_instruction_sets().back(); }

const Kernels& cpu_kernels(InstructionSet set) {
  require(is_supported(set), "kernels for {} were asked for, which this processor lacks",
          name_of(set));
  return table_of(set);
}

// Chosen once: in a virtual machine the processor's answer comes from its host, which takes
// microseconds.
const Kernels& cpu_kernels() {
  static const Kernels& best = table_of(best_instruction_set());
  return best;
}

}  // namespace daso
