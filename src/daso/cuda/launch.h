// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "daso/kernels/kernels.h"

// The kernels of the .cu files, as kernels.cpp calls them: each function puts its work into the
// stream and returns. They know nothing of LibTorch. The structs are those of the CPU's tables,
// with pointers into the GPU's memory; only the terms of means and averages lie with the host.
//
// Encoded segments, and the values that go with them, begin at multiples of 16 bytes where their
// blocks are of as many, and else of 8 or 4: so do all slices of a tensor that are cut between
// blocks.
namespace daso::cuda {

struct Launch {
  cudaStream_t stream;
  unsigned processors;  // of the GPU
};

inline constexpr std::size_t kMostTerms = 128;  // of a mean: they travel with the launch

void encode(Wire wire, const kernels::Encoding& encoding, const Launch& launch);
void decode(Wire wire, const kernels::Decoding& decoding, const Launch& launch);
void average(Wire wire, const kernels::Averaging& averaging, const Launch& launch);
void merge_corrected(Wire wire, const kernels::Merging& merging, const Launch& launch);
void merge_paper(Wire wire, const kernels::Merging& merging, const Launch& launch);

// Sums come in two steps, with `parts` in between: so many that the order of all additions follows
// from the number of elements alone, and the result has the same bits on every GPU.
std::size_t parts_of_distance(std::size_t blocks);
void squared_distance(Wire wire, const kernels::Distance& distance, double* parts,
                      const Launch& launch);
std::size_t parts_of_squares(std::size_t elements);  // of two tensors
void squares(const kernels::Squares& squares, double* parts, const Launch& launch);
void clip(const kernels::Clipping& clipping, double* parts, const Launch& launch);

void mean(const kernels::Mean& mean, const Launch& launch);
void digest(const kernels::Digest& digest, const Launch& launch);
void finite_check(const kernels::FiniteCheck& check, const Launch& launch);

void sgd(const kernels::SgdUpdate& update, const Launch& launch);
void lars(const kernels::LarsUpdate& update, const Launch& launch);
void adamw(const kernels::AdamwUpdate& update, const Launch& launch);
void lamb(const kernels::LambUpdate& update, const Launch& launch);
void ema(const kernels::EmaUpdate& update, const Launch& launch);

void place(const kernels::Placing& work, const Launch& launch);

}  // namespace daso::cuda
