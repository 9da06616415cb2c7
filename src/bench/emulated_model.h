// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "daso/base/seconds.h"

namespace torch::nn {
class Module;
}

namespace daso::bench {

// What makes the nodes of an emulated job uneven.
struct PaceOptions {
  double noise = 0;         // mean share by which the last node computes longer
  double stall_chance = 0;  // that a node pauses before a step
  Seconds stall{0.5};       // how long it does
  std::uint64_t seed = 1;
};

// Of one node in one step.
struct Pace {
  double stretch = 1;  // of forward and backward
  Seconds stall{0};    // before them
};

// Comes from seed, node and step alone: all ranks of a node, every strategy and every other program
// that draws in this way (bench/peers/pace.py) meet the same.
Pace pace_of(const PaceOptions& options, int nodes, int node, std::int64_t step);

// 0 up to 1, exclusively: splitmix64 (Steele, Lea, Flood) of a counter.
double uniform(std::uint64_t counter);

struct EmulatedModelOptions {
  int layers = 20;
  std::int64_t parameters = 2'560'000;  // of all layers together, at least one each
  Seconds forward{0.08};
  Seconds backward{0.16};
  at::Device device = at::Device(at::kCPU);  // where parameters and gradients lie
};

// Elements of each layer, first layer first; the first ones take what does not divide evenly.
std::vector<std::int64_t> layer_elements(const EmulatedModelOptions& options);

// A model that an accelerator computes, as its host sees it: forward takes its time and leaves the
// host's cores alone, and so does backward, in which the gradient of layer i becomes ready when the
// layer's share of backward is over, the last layer first. All layers have the same share. Autograd
// is real, so are the parameters and their gradients; every gradient is kGradient in all elements.
//
// The accelerator does not wait for its host: layers become ready at fixed times after backward's
// start, and what the host does meanwhile, or sleeps too long, delays none but the next one.
class EmulatedModel {
 public:
  static constexpr double kGradient = 1e-3;

  explicit EmulatedModel(const EmulatedModelOptions& options);
  ~EmulatedModel();

  // One parameter a layer, in the order of the layers, all 0.
  std::shared_ptr<torch::nn::Module> module() const;

  // Takes its time; gives the loss to call backward() on, which goes at the same pace. Neither
  // allocates anything of the size of a layer.
  at::Tensor forward(const Pace& pace = {});

 private:
  struct Backward;  // what all layers' backward shares

  EmulatedModelOptions options_;
  std::shared_ptr<torch::nn::Module> module_;
  std::vector<at::Tensor> weights_;
  std::vector<at::Tensor> gradients_;
  std::shared_ptr<Backward> backward_;
};

// Returns at this time, or at once if it has passed.
void sleep_until(Clock::time_point time);

}  // namespace daso::bench
