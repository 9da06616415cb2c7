// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/ordered_mean.h"

#include <ATen/ATen.h>

#include "daso/base/error.h"

namespace daso {
namespace {

// Element by element within a block that stays in the cache, rank by rank across it.
constexpr std::int64_t kBlock = 4096;

template <typename T>
void add_terms(const at::Tensor& terms, const std::vector<float>& weights, at::Tensor& sum) {
  const T* first = terms.const_data_ptr<T>();
  float* total = sum.mutable_data_ptr<float>();
  const std::int64_t elements = sum.numel();
  for (std::int64_t begin = 0; begin < elements; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, elements);
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      const T* term = first + static_cast<std::int64_t>(rank) * elements;
      const float weight = weights[rank];
      for (std::int64_t i = begin; i < end; ++i) {
        const float product = weight * static_cast<float>(term[i]);
        total[i] = rank == 0 ? product : total[i] + product;
      }
    }
  }
}

}  // namespace

void add_in_order(const at::Tensor& terms, const std::vector<float>& weights, at::Tensor& sum) {
  switch (terms.scalar_type()) {
    case at::kFloat:
      return add_terms<float>(terms, weights, sum);
    case at::kBFloat16:
      return add_terms<at::BFloat16>(terms, weights, sum);
    case at::kHalf:
      return add_terms<at::Half>(terms, weights, sum);
    default:
      throw ConfigError(fmt::format("the ordered mean is for float32, bfloat16 and float16, not {}",
                                    c10::toString(terms.scalar_type())));
  }
}

OrderedMean::OrderedMean(Communicator& group, std::vector<float> weights)
    : group_(group), weights_(std::move(weights)) {
  require(static_cast<int>(weights_.size()) == group.size(),
          "the ordered mean over {} ranks of group '{}' was given {} weights", group.size(),
          group.name(), weights_.size());
}

void OrderedMean::operator()(const at::Tensor& tensor, Seconds limit) {
  require(tensor.is_contiguous(), "the ordered mean wants a contiguous tensor");
  const at::Tensor flat = tensor.view({-1});
  make_room(flat);
  const Deadline deadline(limit);
  group_.all_to_all(flat, received_).wait(deadline.left());
  add_in_order(received_, weights_, sum_);
  if (!segment_.is_same(sum_)) segment_.copy_(sum_);
  group_.all_gather(segment_, flat).wait(deadline.left());
}

void OrderedMean::make_room(const at::Tensor& tensor) {
  const std::int64_t own = segment_of(tensor.numel(), group_.size(), group_.rank()).length();
  const std::int64_t needed = own * group_.size();
  if (received_.defined() && received_.numel() == needed &&
      received_.scalar_type() == tensor.scalar_type()) {
    return;
  }
  received_ = at::empty({needed}, tensor.options());
  sum_ = at::empty({own}, at::kFloat);
  segment_ = tensor.scalar_type() == at::kFloat ? sum_ : at::empty({own}, tensor.options());
}

}  // namespace daso
