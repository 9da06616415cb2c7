// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/mpi/types.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "daso/base/error.h"

namespace daso::mpi {
namespace {

struct Sum {
  // Integers narrower than int are added as int and cut back, so that they wrap.
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a > b ? a : b;
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};

// The form that MPI calls: into = from (+) into. C types, since MPI is a C library.
template <typename T, typename How>
void reduce(void* from, void* into, int* elements, MPI_Datatype* /*type*/) {
  const T* own = static_cast<const T*>(from);
  T* sum = static_cast<T*>(into);
  for (int i = 0; i < *elements; ++i) sum[i] = How::apply(own[i], sum[i]);
}

MpiOp make(MPI_User_function* function) {
  MPI_Op op = MPI_OP_NULL;
  mpi_check(MPI_Op_create(function, /*commute=*/1, &op));
  return MpiOp(op);
}

template <typename T, typename Wide>
void divide_as(void* values, std::int64_t elements, int by) {
  T* first = static_cast<T*>(values);
  const Wide divisor = static_cast<Wide>(by);
  for (std::int64_t i = 0; i < elements; ++i) {
    first[i] = static_cast<T>(static_cast<Wide>(first[i]) / divisor);
  }
}

}  // namespace

bool can_carry(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Double:
    case c10::ScalarType::Float:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Half:
    case c10::ScalarType::Char:
    case c10::ScalarType::Byte:
    case c10::ScalarType::Int:
    case c10::ScalarType::Long:
      return true;
    default:
      return false;
  }
}

Types::Types() {
  using enum c10::ScalarType;
  own_.emplace(std::pair(BFloat16, Reduction::kSum), make(&reduce<c10::BFloat16, Sum>));
  own_.emplace(std::pair(BFloat16, Reduction::kMax), make(&reduce<c10::BFloat16, Max>));
  own_.emplace(std::pair(BFloat16, Reduction::kMin), make(&reduce<c10::BFloat16, Min>));
  own_.emplace(std::pair(Half, Reduction::kSum), make(&reduce<c10::Half, Sum>));
  own_.emplace(std::pair(Half, Reduction::kMax), make(&reduce<c10::Half, Max>));
  own_.emplace(std::pair(Half, Reduction::kMin), make(&reduce<c10::Half, Min>));
  // Open MPI's vector code for MPI_SUM stops 8-bit integers at their limits instead of wrapping.
  own_.emplace(std::pair(Char, Reduction::kSum), make(&reduce<std::int8_t, Sum>));
  own_.emplace(std::pair(Byte, Reduction::kSum), make(&reduce<std::uint8_t, Sum>));
}

MPI_Datatype Types::type_of(c10::ScalarType type) const {
  switch (type) {
    case c10::ScalarType::Double:
      return MPI_DOUBLE;
    case c10::ScalarType::Float:
      return MPI_FLOAT;
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Half:
      return MPI_UINT16_T;
    case c10::ScalarType::Char:
      return MPI_INT8_T;
    case c10::ScalarType::Byte:
      return MPI_UINT8_T;
    case c10::ScalarType::Int:
      return MPI_INT32_T;
    case c10::ScalarType::Long:
      return MPI_INT64_T;
    default:
      break;
  }
  DASO_ASSERT(can_carry(type));
  return MPI_DATATYPE_NULL;
}

MPI_Op Types::operator_of(c10::ScalarType type, Reduction how) const {
  if (const auto found = own_.find({type, how}); found != own_.end()) return found->second.get();
  if (how == Reduction::kSum) return MPI_SUM;
  return how == Reduction::kMax ? MPI_MAX : MPI_MIN;
}

void divide(void* values, std::int64_t elements, c10::ScalarType type, int by) {
  switch (type) {
    case c10::ScalarType::Double:
      return divide_as<double, double>(values, elements, by);
    case c10::ScalarType::Float:
      return divide_as<float, float>(values, elements, by);
    case c10::ScalarType::BFloat16:
      return divide_as<c10::BFloat16, float>(values, elements, by);
    case c10::ScalarType::Half:
      return divide_as<c10::Half, float>(values, elements, by);
    default:
      break;
  }
  DASO_ASSERT(c10::isFloatingType(type));
}

}  // namespace daso::mpi
