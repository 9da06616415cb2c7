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

// Classes that are masked: alone, eight in a row and all but one.
TEST_F(GpuCrossEntropy, ScoresOfMinusInfinityCountAsNothing) {
  for (const std::int64_t classes : {7, 24, 1000, 5000}) {
    const at::Tensor scores = at::randn({3, classes});
    scores[0].narrow(0, 0, classes / 2).fill_(-HUGE_VAL);
    scores[1].narrow(0, 1, classes - 1).fill_(-HUGE_VAL);
    scores[2].slice(0, 0, classes - 1, 2).fill_(-HUGE_VAL);
    const at::Tensor labels = at::tensor({classes - 1, std::int64_t{0}, std::int64_t{1}});
    const at::Tensor half = scores.to(at::kCUDA, at::kBFloat16);
    const Outcome ours = outcome(half, labels.to(at::kCUDA));
    const Outcome theirs = in_fp64(half, labels);
    EXPECT_NEAR(ours.loss, theirs.loss, 1e-5 * std::abs(theirs.loss)) << classes;
    EXPECT_TRUE(at::allclose(ours.gradient, theirs.gradient, 0x1p-8, /*atol=*/1e-4)) << classes;
  }
}

TEST_F(GpuCrossEntropy, ANumberThatIsNoneStaysNone) {
  const at::Tensor scores = at::zeros({1, 100}, at::kBFloat16);
  scores[0][50].fill_(std::nan(""));
  const at::Tensor labels = at::zeros({1}, at::kLong).to(at::kCUDA);
  EXPECT_TRUE(std::isnan(outcome(scores.to(at::kCUDA), labels).loss));
}

// Their gradients are tensors of their own, which begin elsewhere.
TEST_F(GpuCrossEntropy, ScoresMayBeAPartOfATensor) {
  const at::Tensor all = at::randn({4, 1001}).to(at::kCUDA, at::kHalf);
  const at::Tensor labels = at::tensor({1, 500, 1000}, at::kLong).to(at::kCUDA);
  const at::Tensor part = all.narrow(0, 1, 3);
  const RowLosses rows = device_module().row_losses(part, labels);
  const at::Tensor gradients = device_module().row_gradients(
      part, labels, rows.log_sums, at::ones({1}, at::TensorOptions(at::kFloat).device(at::kCUDA)));
  const Outcome theirs = in_fp64(part, labels, /*factor=*/3);
  EXPECT_NEAR(rows.losses.mean().item<double>(), theirs.loss, 1e-5 * theirs.loss);
  EXPECT_TRUE(at::allclose(gradients.to(at::kCPU).to(at::kDouble), theirs.gradient, 0x1p-10, 1e-4));
}

TEST_F(GpuCrossEntropy, ALabelThatIsNoClassHasNoLoss) {
  const at::Tensor scores = at::zeros({1, 4}, at::kBFloat16).to(at::kCUDA);
  const at::Tensor labels = at::full({1}, 4, at::kLong).to(at::kCUDA);
  EXPECT_TRUE(std::isnan(training_loss(scores, labels, /*smoothing=*/0).item<double>()));
}

}  // namespace
}  // namespace daso::test
