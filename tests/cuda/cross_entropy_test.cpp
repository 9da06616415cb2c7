// SPDX-License-Identifier: Apache-2.0
// The loss of scores in half precision on a GPU, against LibTorch's of the same scores in fp64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/run/loss.h"
#include "daso/tensor/device.h"

namespace daso::test {
namespace {

class GpuCrossEntropy : public testing::Test {
 protected:
  void SetUp() override {
    try {
      find_device({.kind = DeviceChoice::Kind::kCuda}, 0);
    } catch (const ConfigError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

struct Outcome {
  double loss = 0;
  at::Tensor gradient;
};

Outcome outcome(const at::Tensor& scores, const at::Tensor& labels, double factor = 1) {
  const at::Tensor leaf = scores.detach().clone().requires_grad_();
  const at::Tensor loss = training_loss(leaf, labels, /*smoothing=*/0);
  (loss * factor).backward();
  return {loss.item<double>(), leaf.grad().to(at::kCPU).to(at::kDouble)};
}

Outcome in_fp64(const at::Tensor& scores, const at::Tensor& labels, double factor = 1) {
  const at::Tensor leaf = scores.detach().to(at::kCPU).to(at::kDouble).requires_grad_();
  const at::Tensor loss =
      at::cross_entropy_loss(leaf.flatten(0, -2), labels.to(at::kCPU).flatten());
  (loss * factor).backward();
  return {loss.item<double>(), leaf.grad()};
}

// Rows begin at every place within 16 bytes, and are shorter and longer than a block.
TEST_F(GpuCrossEntropy, IsThatOfTheScoresAsTheyAre) {
  at::manual_seed(2);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const double digits = type == at::kBFloat16 ? 0x1p-8 : 0x1p-11;
    for (const std::int64_t classes : {2, 7, 8, 9, 255, 1000, 4099, 50257}) {
      SCOPED_TRACE(fmt::format("{} classes of {}", classes, c10::toString(type)));
      const at::Tensor scores = (4 * at::randn({3, 5, classes})).to(at::kCUDA, type);
      const at::Tensor labels = at::randint(classes, {3, 5}, at::kLong).to(at::kCUDA);
      const double factor = 4096;  // keeps fp16's gradients within its range
      const Outcome ours = outcome(scores, labels, factor);
      const Outcome theirs = in_fp64(scores, labels, factor);
      EXPECT_NEAR(ours.loss, theirs.loss, 1e-5 * std::abs(theirs.loss));
      EXPECT_TRUE(at::allclose(ours.gradient, theirs.gradient, digits, /*atol=*/1e-4))
          << (ours.gradient - theirs.gradient).abs().max();
    }
  }
}

TEST_F(GpuCrossEntropy, LargeScoresDoNotOverflow) {
  const at::Tensor scores =
      at::tensor({3e38F, -3e38F, 0.0F, -3e38F}).view({2, 2}).to(at::kCUDA, at::kBFloat16);
  const at::Tensor labels = at::zeros({2}, at::kLong).to(at::kCUDA);
  EXPECT_EQ(outcome(scores, labels).loss, 0);
  EXPECT_EQ(outcome(scores, 1 - labels).gradient.abs().sum().item<double>(), 2);
}

TEST_F(GpuCrossEntropy, ALabelThatIsNoClassHasNoLoss) {
  const at::Tensor scores = at::zeros({1, 4}, at::kBFloat16).to(at::kCUDA);
  const at::Tensor labels = at::full({1}, 4, at::kLong).to(at::kCUDA);
  EXPECT_TRUE(std::isnan(training_loss(scores, labels, /*smoothing=*/0).item<double>()));
}

}  // namespace
}  // namespace daso::test
