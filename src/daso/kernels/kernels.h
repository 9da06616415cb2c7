// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "daso/kernels/wire.h"

// Every loop over the flat memory of a model (and over the rows of an image) is a kernel of this
// folder, and a processor's kernels are one table, Kernels. Two layers:
//
//   merge.h, mean.h, update.h, norm.h, digest.h, rows.h
//       what is computed, with its formula: functions over spans that check what they are given and
//       call one entry of a table. All others call these. The table is their last argument.
//   *_loops.h
//       how: templates over a vector type of simd/, which kernels_scalar.cpp, kernels_avx2.cpp and
//       kernels_avx512.cpp compile into one table each. One file for an instruction set, so that no
//       other code is compiled for instructions that the machine may lack.
//
// Between them lie the argument structs below: plain pointers and sizes, which any language and any
// device can read. All tables give the same bits: each product, sum, quotient and root is rounded
// by itself, in the order that the formula says, or added in whole numbers where order cannot
// matter. So ranks on unlike processors stay equal.
//
// A table belongs to a device, and the pointers of its arguments are of that device's memory. These
// three are the CPU's. One for CUDA will stand beside them, loaded from a module like the backends
// of comm/, with the same structs; tensor/large_tensor.h gives the table of the device where a
// tensor lies.
namespace daso {
namespace kernels {

// Of wires: whole blocks of kBlockElements (wire.h).
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

struct EncodedTerm {
  const std::byte* encoded;
  float weight;
};

struct Averaging {
  const EncodedTerm* terms;
  std::size_t number_of_terms;  // at least 1
  float* residual;
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

struct Distance {
  const std::byte* own;
  const std::byte* back;
  std::size_t blocks;
};

// All others: any number of elements.
struct MeanTerm {
  const float* values;
  float weight;
};

struct Mean {
  const MeanTerm* terms;
  std::size_t number_of_terms;  // at least 1
  float divisor;                // of the sum; 1 where the weights do it
  float* residual;              // null: there is none
  float* mean;                  // may lie where a term does
  std::size_t elements;
};

struct Values {
  const float* values;
  std::size_t elements;
};

inline constexpr std::size_t kSquareSums = 16;
struct Squares {
  const float* first;
  const float* second;  // null: the first counts alone
  std::size_t elements;
  double* first_sums;  // kSquareSums of each; element i counts in sum i % kSquareSums
  double* second_sums;
};

struct SgdUpdate {
  const float* gradients;
  float* parameters;
  float* velocity;  // null: no momentum
  std::size_t elements;
  float learning_rate;
  float momentum;
  float weight_decay;
  bool nesterov;
  bool first;
};

struct LarsUpdate {
  const float* gradients;
  float* parameters;
  float* velocity;
  std::size_t elements;
  float rate;
  float momentum;
  float weight_decay;
};

// Of Adam's moments, running means of the gradients and of their squares.
struct MomentFactors {
  float first_keep;    // beta1
  float first_take;    // 1 - beta1
  float second_keep;   // beta2
  float second_take;   // 1 - beta2
  float second_scale;  // 1 / sqrt(1 - beta2^number)
  float epsilon;
};

struct AdamwUpdate {
  const float* gradients;
  float* parameters;
  float* first;
  float* second;
  std::size_t elements;
  MomentFactors factors;
  float keep;  // 1 - learning_rate * weight_decay
  float rate;  // learning_rate / (1 - beta1^number)
};

struct LambFactors {
  MomentFactors moments;
  float first_scale;  // 1 / (1 - beta1^number)
  float weight_decay;
};

struct LambMoments {
  const float* gradients;
  const float* parameters;
  float* first;
  float* second;
  float* change;
  std::size_t elements;
  LambFactors factors;
};

struct LambUpdate {
  float* parameters;
  const float* first;
  const float* second;
  std::size_t elements;
  LambFactors factors;
  float rate;
};

struct EmaUpdate {
  const float* values;
  float* average;
  std::size_t elements;
  float take;
};

// Of images: sums of rows, then of the pixels in a row.
struct RowSum {
  const std::byte* rows;  // the first; others follow at a distance of `stride`
  std::size_t stride;
  const float* weights;  // of each row
  std::size_t number;    // of rows, at least 1
  float* red;            // of the sum; green and blue follow at a distance of `plane`
  std::size_t plane;
  std::size_t pixels;  // of a row
};

// A row is read in whole vectors, so many values behind its last tap.
inline constexpr std::size_t kBehindRow = 32;

struct PixelSum {
  const float* row;  // its reds; greens and blues follow at a distance of `row_plane`
  std::size_t row_plane;
  const std::int32_t* offsets;  // for each pixel of the sum, where in the row its first tap lies
  const float* weights;         // of the first taps; others follow at a distance of `stride`
  std::size_t stride;
  std::size_t taps;  // at least 1
  float* red;        // green and blue follow at a distance of `plane`
  std::size_t plane;
  std::size_t pixels;  // of the sum
  const float* mean;   // of each colour, to be subtracted
  const float* factor;
};

}  // namespace kernels

struct WireKernels {
  bool (*encode)(const kernels::Encoding&);
  void (*decode)(const kernels::Decoding&);
  bool (*average)(const kernels::Averaging&);
  void (*merge_corrected)(const kernels::Merging&);
  void (*merge_paper)(const kernels::Merging&);
  double (*squared_distance)(const kernels::Distance&);
};

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions may not be compiled for a set.
struct Kernels {
  WireKernels wires[kWires];
  bool (*mean)(const kernels::Mean&);
  std::uint64_t (*digest)(const kernels::Values&);
  bool (*all_finite)(const kernels::Values&);
  void (*squares)(const kernels::Squares&);
  void (*sgd)(const kernels::SgdUpdate&);
  void (*lars)(const kernels::LarsUpdate&);
  void (*adamw)(const kernels::AdamwUpdate&);
  void (*lamb_moments)(const kernels::LambMoments&);
  void (*lamb_update)(const kernels::LambUpdate&);
  void (*ema)(const kernels::EmaUpdate&);
  void (*rows)(const kernels::RowSum&);
  void (*pixels)(const kernels::PixelSum&);

  const WireKernels& of(Wire wire) const { return wires[static_cast<std::size_t>(wire)]; }
};
// NOLINTEND(modernize-avoid-c-arrays)

namespace kernels {

// Each in a file of its own; cpu_kernels() chooses.
const Kernels& scalar_table();
const Kernels& avx2_table();
const Kernels& avx512_table();

}  // namespace kernels

enum class InstructionSet {
  kScalar,  // plain C++, runs everywhere
  kAvx2,    // with F16C
  kAvx512,  // the foundation, AVX512F
};

std::string_view name_of(InstructionSet set);
InstructionSet best_instruction_set();                     // of this processor
std::vector<InstructionSet> supported_instruction_sets();  // by it

// The fastest table of this processor; or that of one set, for tests: throws ConfigError where the
// processor lacks it.
const Kernels& cpu_kernels();
const Kernels& cpu_kernels(InstructionSet set);

}  // namespace daso
