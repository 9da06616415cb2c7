// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>

// Values whose reductions are known in closed form. They are whole numbers of at most 100, so they
// and all their partial sums are exact in every type, down to int8 and bfloat16, for any number of
// ranks.
namespace daso::bench {

// What the element at `index` of a tensor holds.
//   kTotal:  2 + index % 50 + index % 7
//   kPart:   this rank's share of kTotal: 1 + index % 50 on rank index % ranks, and 1 + index % 7
//            on the rank after it, else 0. Every element is a sum of two ranks' values, so neither
//            a missing rank nor a maximum in place of the sum goes unnoticed.
//   kOwn:    (index % 50 + index % 7 + 3 * rank) % 101, different on neighbouring ranks
struct Pattern {
  enum class Kind { kTotal, kPart, kOwn };
  Kind kind = Kind::kTotal;
  int rank = 0;
  int ranks = 1;

  std::int64_t at(std::int64_t index) const;
  std::int64_t period() const { return std::int64_t{50} * 7 * ranks; }
};

// The whole tensor, one-dimensional; its first element has index `offset`.
void fill(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset);
bool matches(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset);

}  // namespace daso::bench
