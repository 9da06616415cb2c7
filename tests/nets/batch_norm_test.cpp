// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

#include "daso/nets/layers.h"
#include "daso/nets/network.h"
#include "run_ranks.h"

namespace daso::test {
namespace {

constexpr std::int64_t kChannels = 3;

at::Tensor images() {
  at::manual_seed(5);
  return at::randn({7, kChannels, 4, 5}) * 2 + 3;  // seven: ranks have unequal parts
}

// Something that depends on every value in its own way.
at::Tensor loss_of(const at::Tensor& normalised, const at::Tensor& factors) {
  return (normalised.square() * factors).sum();
}

struct Result {
  at::Tensor output;
  at::Tensor input_gradient;
  at::Tensor weight_gradient;
  at::Tensor running_mean;
  at::Tensor running_var;
};

Result run(BatchNorm& norm, const at::Tensor& input, const at::Tensor& factors) {
  const at::Tensor leaf = input.clone().requires_grad_();
  const at::Tensor output = norm(leaf);
  loss_of(output, factors).backward();
  return {output.detach(), leaf.grad(), norm->weight.grad(), norm->running_mean.clone(),
          norm->running_var.clone()};
}

BatchNorm layer() {
  BatchNorm norm(kChannels);
  const at::NoGradGuard no_grad;
  norm->weight.copy_(at::tensor({0.5F, 1.0F, 2.0F}));
  norm->bias.copy_(at::tensor({1.0F, 0.0F, -1.0F}));
  return norm;
}

void expect_close(const at::Tensor& value, const at::Tensor& expected, const char* what) {
  EXPECT_TRUE(at::allclose(value, expected, 1e-4, 1e-4))
      << what << " differs by " << (value - expected).abs().max().item<double>();
}

// One rank that has all examples, as LibTorch computes it, is the reference.
TEST(BatchNorm, OverRanksIsThatOfOneRankWithAllExamples) {
  const at::Tensor all = images();
  const at::Tensor factors = at::rand_like(all);
  BatchNorm alone = layer();
  const Result expected = run(alone, all, factors);
  constexpr std::array<std::int64_t, 3> kCut = {0, 3, 7};
  run_ranks({.ranks = 2}, [&](World& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    const std::int64_t begin = kCut[rank];
    const std::int64_t length = kCut[rank + 1] - begin;
    BatchNorm norm = layer();
    norm->share([&](const at::Tensor& values) {
      world.everyone().all_reduce(values, Reduce::kSum).wait(world.limit());
    });
    const Result own = run(norm, all.narrow(0, begin, length), factors.narrow(0, begin, length));
    expect_close(own.output, expected.output.narrow(0, begin, length), "output");
    expect_close(own.input_gradient, expected.input_gradient.narrow(0, begin, length),
                 "gradient of the input");
    const at::Tensor weight_gradient = own.weight_gradient.clone();
    world.everyone().all_reduce(weight_gradient, Reduce::kSum).wait(world.limit());
    expect_close(weight_gradient, expected.weight_gradient, "gradient of the weight");
    expect_close(own.running_mean, expected.running_mean, "running mean");
    expect_close(own.running_var, expected.running_var, "running variance");
    EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 1);
  });
}

TEST(BatchNorm, IsFoundInEveryLayerOfANetwork) {
  const SumOverRanks nobody = [](const at::Tensor&) {};
  EXPECT_EQ(share_statistics(*make_network({.name = "cnn"}), nobody), 3);
  EXPECT_EQ(share_statistics(*make_network({.name = "resnet20"}), nobody), 19);
  EXPECT_EQ(share_statistics(*make_network({.name = "resnet50"}), nobody), 53);
  EXPECT_EQ(share_statistics(*make_network({.name = "mlp"}), nobody), 0);
}

TEST(BatchNorm, InEvaluationAsksNobody) {
  BatchNorm norm = layer();
  norm->share([](const at::Tensor&) { FAIL() << "asked"; });
  norm->eval();
  const at::Tensor input = images();
  BatchNorm plain = layer();
  plain->eval();
  EXPECT_TRUE(at::equal(norm(input), plain(input)));
}

}  // namespace
}  // namespace daso::test
