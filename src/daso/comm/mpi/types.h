// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <utility>

#include "daso/comm/mpi/mpi_check.h"

namespace daso::mpi {

enum class Reduction { kSum, kMax, kMin };

// Whether tensors of this type can travel. From any thread.
bool can_carry(c10::ScalarType type);

// MPI's names for our types and reductions, and the reductions that MPI lacks. Made and used on the
// progress thread.
class Types {
 public:
  Types();

  // bfloat16 and float16 travel as unsigned 16-bit integers: the same bits, and MPI's own types
  // take shorter ways through it than types we could make.
  MPI_Datatype type_of(c10::ScalarType type) const;
  MPI_Op operator_of(c10::ScalarType type, Reduction how) const;

 private:
  std::map<std::pair<c10::ScalarType, Reduction>, MpiOp> own_;
};

// Divides every value in place, in the type's own precision (float32 for the 16-bit types), rounded
// once. Floating-point types only. A plain loop: ATen would start threads of its own for it.
void divide(void* values, std::int64_t elements, c10::ScalarType type, int by);

}  // namespace daso::mpi
