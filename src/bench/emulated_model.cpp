// SPDX-License-Identifier: Apache-2.0
#include "bench/emulated_model.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/nn/module.h>

#include <cerrno>
#include <ctime>

namespace daso::bench {
namespace {

enum class Draw : std::uint8_t { kNoise, kStall };

double draw(const PaceOptions& options, int node, std::int64_t step, Draw what) {
  constexpr std::uint64_t kMost = 1'000'003;  // steps and nodes stay apart below this
  std::uint64_t counter = options.seed * kMost + static_cast<std::uint64_t>(node);
  counter = counter * kMost + static_cast<std::uint64_t>(step);
  return uniform(counter * 2 + static_cast<std::uint64_t>(what));
}

}  // namespace

double uniform(std::uint64_t counter) {
  std::uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

Pace pace_of(const PaceOptions& options, int nodes, int node, std::int64_t step) {
  Pace pace;
  if (node == nodes - 1) {
    pace.stretch += 2 * options.noise * draw(options, node, step, Draw::kNoise);
  }
  if (draw(options, node, step, Draw::kStall) < options.stall_chance) pace.stall = options.stall;
  return pace;
}

using torch::autograd::variable_list;

struct EmulatedModel::Backward {
  // Of autograd's graph: passes its input's gradient on, and has its weight's when the layer's
  // share of backward is over.
  struct Layer;

  Seconds share{0};  // of one layer
  Clock::time_point started;
};

struct EmulatedModel::Backward::Layer : torch::autograd::Node {
  std::shared_ptr<Backward> backward;
  at::Tensor gradient;
  int turn = 0;  // 0 for the last layer, whose gradient is the first

  variable_list apply(variable_list&& outer) override {
    if (turn == 0) backward->started = Clock::now();
    const Seconds ready = (turn + 1) * backward->share;
    sleep_until(backward->started + std::chrono::duration_cast<Clock::duration>(ready));
    return {std::move(outer.front()), gradient};
  }
};

std::vector<std::int64_t> layer_elements(const EmulatedModelOptions& options) {
  const std::int64_t share = options.parameters / options.layers;
  const std::int64_t rest = options.parameters % options.layers;
  std::vector<std::int64_t> elements(static_cast<std::size_t>(options.layers), share);
  for (std::int64_t i = 0; i < rest; ++i) ++elements[static_cast<std::size_t>(i)];
  return elements;
}

EmulatedModel::EmulatedModel(const EmulatedModelOptions& options)
    : options_(options),
      module_(std::make_shared<torch::nn::Module>("EmulatedModel")),
      backward_(std::make_shared<Backward>()) {
  const at::TensorOptions there = at::TensorOptions(at::kFloat).device(options.device);
  for (const std::int64_t elements : layer_elements(options)) {
    const std::string name = fmt::format("layer{}", weights_.size());
    weights_.push_back(module_->register_parameter(name, at::zeros({elements}, there)));
    gradients_.push_back(at::full({elements}, kGradient, there));
  }
}

EmulatedModel::~EmulatedModel() = default;

std::shared_ptr<torch::nn::Module> EmulatedModel::module() const { return module_; }

at::Tensor EmulatedModel::forward(const Pace& pace) {
  const auto started = Clock::now();
  backward_->share = pace.stretch * options_.backward / options_.layers;
  at::Tensor value = at::zeros({});
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    // Autograd's own way to delete: of a long chain not one inside the other.
    const std::shared_ptr<Backward::Layer> layer(new Backward::Layer, torch::autograd::deleteNode);
    layer->backward = backward_;
    layer->gradient = gradients_[i];
    layer->turn = static_cast<int>(weights_.size() - 1 - i);
    layer->set_next_edges(torch::autograd::collect_next_edges(value, weights_[i]));
    value = value.detach();
    torch::autograd::set_history(value, layer);
  }
  const Seconds taken = pace.stall + pace.stretch * options_.forward;
  sleep_until(started + std::chrono::duration_cast<Clock::duration>(taken));
  return value;
}

void sleep_until(Clock::time_point time) {
  const auto nanoseconds = std::chrono::nanoseconds(time.time_since_epoch()).count();
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec absolute{.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
  // An absolute time, so that a signal in between prolongs nothing.
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &absolute, nullptr) == EINTR) {
  }
}

}  // namespace daso::bench
