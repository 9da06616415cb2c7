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
// A table belongs to a device, and the pointers of its arguments are of that device's memory: those
// of results, too, since a GPU has not even begun when a call returns. Three tables are the CPU's;
// that for CUDA comes from a module (src/daso/cuda), loaded like the backends of comm/.
// tensor/large_tensor.h gives the table of the device where a tensor lies, and
// tensor/flat_values.h calls it for tensors.
namespace daso {
namespace kernels {

// In all structs: `overflow` is set to 1 where a value cannot travel or is not finite, and else
// left as it is, so one flag may serve several calls. Other results are written.

// Of wires: whole blocks of kBlockElements (wire.h).
struct Encoding {
  const float* values;
  const float* anchor;
  std::byte* encoded;
  std::size_t blocks;
  Draws draws = {};
  std::uint32_t* overflow;
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
  std::uint32_t* overflow;
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
  double* sum;
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
  std::uint32_t* overflow;  // null: nobody asks
};

struct Digest {
  const float* values;
  std::size_t elements;
  std::uint64_t* digest;
};

struct FiniteCheck {
  const float* values;
  std::size_t elements;
  std::uint32_t* overflow;
};

// Sums of the squares.
struct Squares {
  const float* first;
  const float* second;  // null: the first counts alone
  std::size_t elements;
  double* first_sum;
  double* second_sum;  // null where there is no second
};

// Values whose norm is above `largest` are scaled down to it, by largest / (norm + 1e-6).
struct Clipping {
  float* values;
  std::size_t elements;
  double largest;
  double* norm;  // before
};

// Neighbouring elements of flat tensors that an optimizer treats alike.
struct Run {
  std::size_t begin;
  std::size_t elements;
  double weight_decay;
  bool adapts;                // the rate follows norms: of lars and lamb alone
  std::uint32_t first_chunk;  // of its own
  std::uint32_t chunks;
};

// A GPU's group of threads works on so many elements of one run at a time. Chunks end where the
// flat tensor has a multiple of this.
inline constexpr std::size_t kChunkElements = 4096;
struct Chunk {
  std::size_t begin;
  std::uint32_t elements;
  std::uint32_t run;
};

// All runs of an optimizer (optim/runs.h makes them), in the memory of the device. What is below
// the first two is for GPUs alone, else null.
struct Runs {
  const Run* runs;
  std::size_t number;
  const Chunk* chunks = nullptr;
  std::size_t number_of_chunks = 0;
  double* sums = nullptr;            // two for each chunk
  std::uint32_t* arrived = nullptr;  // for each run; 0 between calls
  float* rates = nullptr;            // for each run
};

struct SgdUpdate {
  Runs runs;
  const float* gradients;
  float* parameters;
  float* velocity;  // null: no momentum
  float learning_rate;
  float momentum;
  bool nesterov;
  bool first;
};

struct LarsUpdate {
  Runs runs;
  const float* gradients;
  float* parameters;
  float* velocity;
  double learning_rate;
  double trust;
  float momentum;
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
  Runs runs;
  const float* gradients;
  float* parameters;
  float* first;
  float* second;
  MomentFactors factors;
  double learning_rate;
  float rate;  // learning_rate / (1 - beta1^number)
};

struct LambUpdate {
  Runs runs;
  const float* gradients;
  float* parameters;
  float* first;
  float* second;
  MomentFactors factors;
  double learning_rate;
  float first_scale;  // 1 / (1 - beta1^number)
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

// Of images as bytes, channel by channel and row by row: what place_pixels.h says, for all pixels.
struct Placing {
  const std::byte* bytes;
  const std::int32_t* placements;  // three of each image: down, right, mirrored
  const float* values;             // of each channel 256: what a byte becomes
  float* inputs;
  std::size_t images;
  std::int32_t channels;
  std::int32_t height;
  std::int32_t width;
};

}  // namespace kernels

struct WireKernels {
  void (*encode)(const kernels::Encoding&);
  void (*decode)(const kernels::Decoding&);
  void (*average)(const kernels::Averaging&);
  void (*merge_corrected)(const kernels::Merging&);
  void (*merge_paper)(const kernels::Merging&);
  void (*squared_distance)(const kernels::Distance&);
};

// NOLINTBEGIN(modernize-avoid-c-arrays): std::array's functions may not be compiled for a set.
struct Kernels {
  bool host;  // the CPU's: its memory is the host's, and results are there on return
  WireKernels wires[kWires];
  void (*mean)(const kernels::Mean&);
  void (*digest)(const kernels::Digest&);
  void (*finite_check)(const kernels::FiniteCheck&);
  void (*squares)(const kernels::Squares&);
  void (*clip)(const kernels::Clipping&);  // of GPUs: the CPU knows the norm, and scales by threads
  void (*sgd)(const kernels::SgdUpdate&);
  void (*lars)(const kernels::LarsUpdate&);
  void (*adamw)(const kernels::AdamwUpdate&);
  void (*lamb)(const kernels::LambUpdate&);
  void (*ema)(const kernels::EmaUpdate&);
  void (*rows)(const kernels::RowSum&);
  void (*pixels)(const kernels::PixelSum&);
  void (*place)(const kernels::Placing&);

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
