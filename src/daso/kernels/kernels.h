// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "daso/kernels/instruction_set.h"
#include "daso/kernels/wire.h"

// Between the functions of wire.h, merge.h and digest.h, which check what they are given, and the
// loops that do it, one version per instruction set. Plain pointers, and sizes in whole blocks:
// nothing of the standard library may be compiled for an instruction set (base/simd/scalar.h).
namespace daso::kernels {

struct Encoding {
  const float* values;
  const float* anchor;
  std::byte* encoded;
  std::size_t blocks;
  Draws draws = {};
};

struct Decoding {
  const std::byte* encoded;
  float* values;
  std::size_t blocks;
};

struct Term {
  const std::byte* encoded;
  float weight;
};

struct Averaging {
  const Term* terms;
  std::size_t number_of_terms;  // at least 1
  float* residual;              // null: nothing is added, nothing is kept
  std::byte* back;
  std::size_t blocks;
  Draws draws = {};
};

struct Merging {
  const std::byte* own;
  const std::byte* back;
  float* parameters;
  float* anchor;  // null: this rank does not keep it
  std::size_t blocks;
  const float* sent;   // paper alone, as are the next two
  float local_weight;  // 2 * staleness
  float peers;
};

// Running state of a digest: each lane takes every kDigestLanes-th element.
inline constexpr std::size_t kDigestLanes = 64;
struct Digestion {
  const float* values;
  std::size_t rows;  // of kDigestLanes elements each
  std::uint32_t* lanes;
};

struct WireKernels {
  bool (*encode)(const Encoding&);
  void (*decode)(const Decoding&);
  bool (*average)(const Averaging&);
  void (*merge_corrected)(const Merging&);
  void (*merge_paper)(const Merging&);
};

struct Kernels {
  WireKernels wires[kWires];  // NOLINT(modernize-avoid-c-arrays): see above
  void (*digest)(const Digestion&);
};

// Of each instruction set, in a file of its own.
const Kernels& scalar_kernels();
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();

// The one place that dispatches. Throws ConfigError where the processor lacks the set.
const Kernels& kernels_of(InstructionSet set);
const WireKernels& kernels_of(Wire wire, InstructionSet set);

}  // namespace daso::kernels
