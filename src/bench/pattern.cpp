// SPDX-License-Identifier: Apache-2.0
#include "bench/pattern.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace daso::bench {
namespace {

// Whole periods of the pattern, so that a long tensor is some thousand copies at most.
at::Tensor stretch(const Pattern& pattern, std::int64_t offset, const at::Tensor& like) {
  constexpr std::int64_t kElements = 1 << 18;
  const std::int64_t periods = std::max<std::int64_t>(1, kElements / pattern.period());
  const std::int64_t elements = std::min(periods * pattern.period(), like.numel());
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) values.push_back(pattern.at(offset + i));
  return at::tensor(values, at::kLong).to(like.scalar_type());
}

// Calls `each` for the pieces of the tensor with what they should hold, while it returns true.
bool walk(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset,
          const std::function<bool(const at::Tensor&, const at::Tensor&)>& each) {
  const at::Tensor values = stretch(pattern, offset, tensor);
  for (std::int64_t begin = 0; begin < tensor.numel(); begin += values.numel()) {
    const std::int64_t length = std::min(values.numel(), tensor.numel() - begin);
    if (!each(tensor.narrow(0, begin, length), values.narrow(0, 0, length))) return false;
  }
  return true;
}

}  // namespace

std::int64_t Pattern::at(std::int64_t index) const {
  switch (kind) {
    case Kind::kTotal:
      return 2 + index % 50 + index % 7;
    case Kind::kPart:
      return (index % ranks == rank ? 1 + index % 50 : 0) +
             ((index + 1) % ranks == rank ? 1 + index % 7 : 0);
    case Kind::kOwn:
      return (index % 50 + index % 7 + std::int64_t{3} * rank) % 101;
  }
  return 0;
}

void fill(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset) {
  walk(tensor, pattern, offset, [](const at::Tensor& piece, const at::Tensor& values) {
    piece.copy_(values);
    return true;
  });
}

bool matches(const at::Tensor& tensor, const Pattern& pattern, std::int64_t offset) {
  return walk(tensor, pattern, offset, [](const at::Tensor& piece, const at::Tensor& values) {
    return piece.equal(values);
  });
}

}  // namespace daso::bench
