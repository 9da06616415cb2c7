// SPDX-License-Identifier: Apache-2.0
#include "together.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "daso/kernels/merge.h"

namespace daso::test {

Together::Together(std::vector<float> weights, const Floats& start, const ExchangeOptions& options)
    : weights_(std::move(weights)),
      wire_(options.wire),
      seed_(options.seed),
      parameters_(weights_.size(), start),
      anchor_(start),
      residual_(start.size()) {}

void Together::start(std::int64_t exchange) {
  sent_.assign(weights_.size(), std::vector<std::byte>(encoded_bytes(wire_, anchor_.size())));
  std::vector<Difference> differences;
  for (std::size_t node = 0; node < weights_.size(); ++node) {
    const Draws draws{draw_key(seed_, exchange, static_cast<std::int64_t>(node))};
    ASSERT_TRUE(encode(wire_, parameters_[node], anchor_, sent_[node], draws));
    differences.push_back({.encoded = sent_[node], .weight = weights_[node]});
  }
  back_.resize(sent_.front().size());
  const Draws draws{draw_key(seed_, exchange, kMeanSender)};
  ASSERT_TRUE(average(wire_, differences, residual_, back_, draws));
}

void Together::merge() {
  Floats moved;
  for (std::size_t node = 0; node < weights_.size(); ++node) {
    moved = anchor_;
    merge_corrected({.wire = wire_,
                     .own = sent_[node],
                     .back = back_,
                     .parameters = parameters_[node],
                     .anchor = moved});
  }
  anchor_ = moved;
}

void Together::keep_first(const std::vector<float>& weights) {
  weights_ = weights;
  parameters_.resize(weights.size());
  residual_.assign(residual_.size(), 0.0F);
}

Floats Together::agreed() const {
  Floats mean(anchor_.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] = weights_[0] * parameters_[0][i];
    for (std::size_t node = 1; node < weights_.size(); ++node) {
      const float product = weights_[node] * parameters_[node][i];
      mean[i] += product;
    }
    mean[i] += residual_[i];
  }
  return mean;
}

void Together::add(std::span<float> to, const at::Tensor& by) {
  const float* values = by.const_data_ptr<float>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += values[i];
}

at::Tensor progress(std::int64_t node, std::int64_t round, std::int64_t elements) {
  at::Generator random = at::make_generator<at::CPUGeneratorImpl>(1000 * node + round);
  return at::randn({elements}, random) * 1e-2;
}

}  // namespace daso::test
