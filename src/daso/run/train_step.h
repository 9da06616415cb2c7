// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daso/base/timeline.h"
#include "daso/data/batch.h"
#include "daso/run/precision.h"
#include "daso/run/settings.h"
#include "daso/run/task.h"
#include "daso/tensor/flat_model.h"

namespace daso {

class Network;  // in network.h

// What the parts of a run do around the backward passes of a step.
struct StepCalls {
  std::function<void(int part)> draw = {};    // before each forward: what it will draw
  std::function<void()> begin_backward = {};  // Strategy::begin_backward()
  std::optional<double> loss_scale = {};      // LossScaler::scale(), for fp16
};

// Why steps on a GPU are not captured as a graph, although nobody has switched that off; empty:
// they can be.
std::string why_no_graph(const Settings& settings, const Task& task);

// The part of a step that computes: from a batch to the mean loss and the flat gradients. What
// changes from step to step, like the learning rate, and what other ranks have a part in lies
// outside: strategy, optimizer.
//
// On a GPU it is captured as a graph after a few steps (--graphs): zeroing, forward, loss and
// backward are then one call, which takes the processor no time and leaves no gaps between kernels.
// The graph reads inputs that stay where they are, into which each batch is copied. It is for
// batches of one shape; others are computed as before. Gradients are there when all of it is done,
// so begin_backward is called after the last backward, and the strategy hands out everything in
// before_step().
class TrainStep {
 public:
  // All is borrowed. On a GPU the calling thread's current stream must be the one that the
  // strategy was made under and that steps are called under, and not the device's default one.
  // `tells`: says on standard error why steps are not captured, where that is not the CPU.
  TrainStep(const Settings& settings, const Task& task, Network& network, FlatModel& model,
            Timeline& timeline, bool tells);
  TrainStep(const TrainStep&) = delete;
  TrainStep& operator=(const TrainStep&) = delete;
  ~TrainStep();

  // Returns the mean loss of the batch, in fp64 and not read; the gradients are in the flat model,
  // times the loss scale.
  at::Tensor operator()(const Batch& batch, std::int64_t step, const StepCalls& calls);

  // Where the graph reads a batch, once there is one: what already lies there is not copied.
  std::optional<Batch> graph_input() const;

 private:
  struct Capture;  // what a graph needs

  at::Tensor pass_by_pass(const Batch& batch, std::int64_t step, const StepCalls& calls);
  at::Tensor all_at_once(const Batch& batch, std::int64_t step, const StepCalls& calls);
  void compute(const Batch& batch);
  bool try_capture();
  void tell(const std::string& reason) const;
  at::Tensor loss_of(const Batch& batch);
  Batch on_device(const Batch& batch) const;

  const Settings& settings_;
  const Task& task_;
  Network& network_;
  FlatModel& model_;
  Timeline& timeline_;
  const bool tells_;
  const at::Device device_;
  const GpuArithmetic arithmetic_;
  std::unique_ptr<Capture> capture_;  // null: steps are computed pass by pass
};

}  // namespace daso
