// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daso/optim/sgd.h"
#include "daso/strategy/strategy.h"
#include "run_ranks.h"

// What the tests of strategies train, on every rank of a job. Expected values are closed forms, or
// what one process gets that does the work of all ranks.
namespace daso::test {

// A module for a FlatModel, and its tensors: w0, w1 ...
struct Weights {
  explicit Weights(const std::vector<std::int64_t>& sizes);

  std::shared_ptr<torch::nn::Module> module;
  std::vector<at::Tensor> tensors;
};

// A gradient of every element: what an element, a rank and a step make of its value.
using Gradient = std::function<at::Tensor(const at::Tensor& value, int rank, std::int64_t step)>;

// Differs between ranks and steps, pulls towards a point of its own.
at::Tensor pull(const at::Tensor& value, int rank, std::int64_t step);

struct Job {
  std::vector<std::string> nodes = {"a", "a", "b", "b"};
  StrategyOptions options;
  RunPlan run_plan;
  Gradient gradient = pull;
  double momentum = 0.9;
  // Divide by nothing, so that slices, segments and blocks end in the middle of tensors.
  std::vector<std::int64_t> sizes = {700, 1, 513, 40, 1300};
  // Called on every rank, after each step.
  std::function<void(World&, FlatModel&, Strategy&, Optimizer&, const StepInfo&)> after = {};
};

Job job_of(const std::string& strategy, int epochs = 2, std::int64_t batches = 10);
RankOptions ranks_of(const Job& job);

// One rank's replica and what drives it.
struct Replica {
  Replica(World& world, const Job& job);

  void step(const Job& job, const StepInfo& info);

  Weights weights;
  FlatModel model;
  Sgd optimizer;
  std::unique_ptr<Strategy> strategy;
  int rank;
};

// The whole job, or the rest of it from step `from` on.
void train(World& world, const Job& job, Replica& replica, std::int64_t from = 0);

// The parameters of every rank in the end.
std::vector<at::Tensor> results_of(const Job& job);

// One process that takes the mean of the gradients of `ranks`.
at::Tensor alone(const Job& job, const std::vector<int>& ranks);

}  // namespace daso::test
