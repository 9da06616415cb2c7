// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/reduction.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "daso/base/error.h"

namespace daso::tcp {
namespace {

constexpr std::size_t kBlock = 1024;  // elements: their sums stay in the nearest cache

template <typename T>
using Wide =
    std::conditional_t<std::is_same_v<T, c10::BFloat16> || std::is_same_v<T, c10::Half>, float, T>;

template <typename T>
T plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {  // they wrap, which is defined for unsigned ones alone
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <typename T>
void add_block(std::span<Wide<T>> sum, const T* term, Reduce how) {
  switch (how) {
    case Reduce::kSum:
    case Reduce::kMean:
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] = plus(sum[i], static_cast<Wide<T>>(term[i]));
      }
      return;
    case Reduce::kMax:
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] = std::max(sum[i], static_cast<Wide<T>>(term[i]));
      }
      return;
    case Reduce::kMin:
      for (std::size_t i = 0; i < sum.size(); ++i) {
        sum[i] = std::min(sum[i], static_cast<Wide<T>>(term[i]));
      }
      return;
  }
}

template <typename T>
void reduce_as(const std::vector<std::span<const std::byte>>& terms, Reduce how,
               std::span<std::byte> into) {
  T* result = reinterpret_cast<T*>(into.data());
  const std::size_t elements = into.size() / sizeof(T);
  std::array<Wide<T>, kBlock> room{};
  for (std::size_t begin = 0; begin < elements; begin += kBlock) {
    const std::span<Wide<T>> sum(room.data(), std::min(kBlock, elements - begin));
    const T* first = reinterpret_cast<const T*>(terms.front().data()) + begin;
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = static_cast<Wide<T>>(first[i]);
    for (std::size_t term = 1; term < terms.size(); ++term) {
      add_block<T>(sum, reinterpret_cast<const T*>(terms[term].data()) + begin, how);
    }
    if (how == Reduce::kMean) {
      const auto ranks = static_cast<Wide<T>>(terms.size());
      for (Wide<T>& value : sum) value = static_cast<Wide<T>>(value / ranks);
    }
    for (std::size_t i = 0; i < sum.size(); ++i) result[begin + i] = static_cast<T>(sum[i]);
  }
}

}  // namespace

void reduce_in_order(const std::vector<std::span<const std::byte>>& terms, Reduce how,
                     at::ScalarType type, std::span<std::byte> into) {
  for (const auto& term : terms) DASO_ASSERT(term.size() == into.size());
  switch (type) {
    case at::kDouble:
      return reduce_as<double>(terms, how, into);
    case at::kFloat:
      return reduce_as<float>(terms, how, into);
    case at::kBFloat16:
      return reduce_as<c10::BFloat16>(terms, how, into);
    case at::kHalf:
      return reduce_as<c10::Half>(terms, how, into);
    case at::kChar:
      return reduce_as<std::int8_t>(terms, how, into);
    case at::kInt:
      return reduce_as<std::int32_t>(terms, how, into);
    case at::kLong:
      return reduce_as<std::int64_t>(terms, how, into);
    default:
      throw ConfigError("tensors of this type do not travel");
  }
}

}  // namespace daso::tcp
