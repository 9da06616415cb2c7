// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/gradient_watch.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "daso/base/error.h"

namespace daso {

std::vector<Bucket> cut_buckets(const std::vector<FlatSpan>& spans, std::int64_t cap_elements) {
  require(cap_elements >= 1, "a bucket must have room for at least 1 element, got {}",
          cap_elements);
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const std::int64_t end = spans[i].offset + spans[i].elements;
    if (!buckets.empty() && end - buckets.back().begin <= cap_elements) {
      ++buckets.back().spans;
      buckets.back().end = end;
    } else {
      buckets.push_back({i, 1, spans[i].offset, end});
    }
  }
  return buckets;
}

GradientWatch::GradientWatch(const FlatModel& model, std::vector<Bucket> buckets, OnReady on_ready)
    : buckets_(std::move(buckets)), on_ready_(std::move(on_ready)), missing_(buckets_.size()) {
  const std::size_t spans = model.parameter_spans().size();
  bucket_of_span_.resize(spans);
  seen_.resize(spans);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t i = 0; i < buckets_[b].spans; ++i) bucket_of_span_[buckets_[b].first + i] = b;
  }
  for (std::size_t span = 0; span < spans; ++span) {
    // Autograd forgets the node of a leaf that nobody holds, and the hook with it.
    auto accumulator = torch::autograd::impl::grad_accumulator(model.parameter(span));
    const std::uintptr_t key =
        accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
            [this, span](const torch::autograd::variable_list& outputs,
                         const torch::autograd::variable_list&) {
              on_gradient(span);
              return outputs;
            }));
    hooks_.push_back({std::move(accumulator), key});
  }
}

GradientWatch::~GradientWatch() {
  for (const Hook& hook : hooks_) hook.accumulator->del_post_hook(hook.key);
}

void GradientWatch::arm() {
  if (armed_) {
    throw Error(
        "begin_backward() was called twice in a step; call it once, before the last backward, and "
        "before_step() after that backward");
  }
  armed_ = true;
  next_ = 0;
  std::fill(seen_.begin(), seen_.end(), false);
  for (std::size_t b = 0; b < buckets_.size(); ++b) missing_[b] = buckets_[b].spans;
}

void GradientWatch::flush() {
  if (!armed_) {
    throw Error(
        "before_step() was called without begin_backward() before it, so the gradients of this "
        "step "
        "have not travelled; call begin_backward() before the last backward of every step");
  }
  for (; next_ < buckets_.size(); ++next_) on_ready_(next_);
  armed_ = false;
}

void GradientWatch::on_gradient(std::size_t span) {
  if (!armed_) return;
  if (seen_[span]) {
    throw Error(
        "a second backward ran after the gradients had begun to travel; call arm() before the last "
        "backward of a step");
  }
  seen_[span] = true;
  --missing_[bucket_of_span_[span]];
  hand_out_ready();
}

void GradientWatch::hand_out_ready() {
  while (next_ < buckets_.size() && missing_[next_] == 0) on_ready_(next_++);
}

}  // namespace daso
