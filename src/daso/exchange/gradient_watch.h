// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "daso/tensor/flat_model.h"

namespace torch::autograd {
struct Node;
}

namespace daso {

// A run of neighbouring tensors whose gradients travel together: spans first ... first + spans - 1
// of the layout, elements begin ... end - 1 of the flat tensor.
struct Bucket {
  std::size_t first = 0;
  std::size_t spans = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Cuts a layout into buckets of whole tensors, each as full as the cap allows; a tensor above the
// cap is a bucket of its own. The cut depends on nothing but the layout and the cap, so it is the
// same on all ranks and in every step.
std::vector<Bucket> cut_buckets(const std::vector<FlatSpan>& spans, std::int64_t cap_elements);

// Watches a backward pass and says when the gradients of a bucket are whole, while backward still
// runs. Buckets are handed out in the order of the layout, each once a step, so that all ranks hand
// them out in the same order whatever order their backward takes.
//
// A tensor that backward does not reach is never ready; flush() hands out what is left.
class GradientWatch {
 public:
  using OnReady = std::function<void(std::size_t bucket)>;

  // Calls `on_ready` from the thread that runs backward. The model is borrowed.
  GradientWatch(const FlatModel& model, std::vector<Bucket> buckets, OnReady on_ready);
  GradientWatch(const GradientWatch&) = delete;
  GradientWatch& operator=(const GradientWatch&) = delete;
  ~GradientWatch();

  const std::vector<Bucket>& buckets() const { return buckets_; }

  // Counts from the next backward on; to be called before the last backward of a step. Gradients
  // that earlier ones have left (accumulation) are part of what is handed out.
  void arm();
  // Ends the step: hands out the buckets that are not whole, in order.
  void flush();

 private:
  struct Hook {
    std::shared_ptr<torch::autograd::Node> accumulator;
    std::uintptr_t key;
  };

  void on_gradient(std::size_t span);
  void hand_out_ready();

  const std::vector<Bucket> buckets_;
  const OnReady on_ready_;
  std::vector<std::size_t> bucket_of_span_;
  std::vector<bool> seen_;            // by span, in this step
  std::vector<std::size_t> missing_;  // by bucket: spans that are not ready
  std::size_t next_ = 0;              // the bucket to hand out next
  bool armed_ = false;
  std::vector<Hook> hooks_;
};

}  // namespace daso
