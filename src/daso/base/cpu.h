// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace daso {

struct Cpu {
  std::string model;
  int cores = 0;                              // that this process may use
  int cores_online = 0;                       // that the machine has
  std::vector<std::string> instruction_sets;  // of those that matter here: avx2, avx512f, ...
};

Cpu this_cpu();

// Whether the CPU says that it has a matrix unit for bf16 (AMX). That it does need not mean that
// programs can use it: tensor/bf16.h.
bool amx_advertised();

}  // namespace daso
