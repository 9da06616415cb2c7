// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "daso/kernels/merge.h"
#include "daso/policy/exchange_options.h"

namespace daso {

// The answer of an exchange for one slice of the model, at its merge.
struct Answer {
  Merge merge;                  // what the node sent, what came back, and what they change
  std::span<const float> sent;  // the parameters as they were at the start
  std::int64_t staleness = 0;   // the steps since then
  int nodes = 1;                // that took part
  const Kernels& kernels = cpu_kernels();  // of the device where all of it lies
};

// The outer rule of a strategy: how parameters and anchor move once the answer of an exchange is
// there. It runs on every rank, for every slice, and must come to the same bits on all ranks of a
// node. (A rule with a state of its own, such as an outer optimizer, steps at the owner of a
// segment instead, where a HierarchicalMean takes another rule for the mean.)
class OuterRule {
 public:
  virtual ~OuterRule() = default;
  virtual bool needs_sent() const = 0;  // else Answer::sent is not kept in checkpoints
  virtual void apply(const Answer& answer) const = 0;
};

// merge_corrected() or merge_paper().
std::unique_ptr<OuterRule> make_outer_rule(MergeRule rule);

// Hears the number of an exchange that counts, and its answer: the rows of the model, encoded.
using OnAnswer = std::function<void(std::int64_t exchange, const at::Tensor& answer)>;

// Moves an anchor as the answer of an exchange moves it at every merge, for those who were not
// there, or are not to be changed themselves: both rules move it by the answer alone. `anchor` has
// the rows of a model, kFlatBlock floats each, and `answer` the same rows encoded; both are on the
// host.
void follow(const ExchangeOptions& options, const at::Tensor& anchor, const at::Tensor& answer);

}  // namespace daso
