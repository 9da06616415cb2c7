// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "daso/base/error.h"
#include "daso/nets/layers.h"
#include "daso/nets/network.h"
#include "daso/nets/transformers.h"
#include "nets/known_networks.h"

namespace daso {
namespace {

// Five standard errors of how often something with this chance happens.
double tolerance(double chance, std::int64_t times) {
  return 5 * std::sqrt(chance * (1 - chance) / static_cast<double>(times));
}

double share_of(const at::Tensor& such) { return such.to(at::kDouble).mean().item<double>(); }

std::vector<NetworkOptions> networks(double dropout) {
  return {{.name = "transformer", .text = true, .width = 8, .classes = 5, .dropout = dropout},
          {.name = "vit-tiny",
           .channels = 1,
           .height = 8,
           .width = 8,
           .classes = 5,
           .dropout = dropout}};
}

at::Tensor input_for(const NetworkOptions& options) {
  const at::Tensor input = test::examples_for(options, /*batch=*/1).inputs;
  return options.text ? input : input.to(at::kFloat);
}

TEST(Dropout, LeavesOutByChanceAndScalesTheRest) {
  for (const double chance : {0.1, 0.5, 0.9}) {
    Dropout dropout(chance);
    const at::Tensor left = dropout.forward(at::ones({500, 1000}));
    const at::Tensor out = left.eq(0);
    EXPECT_NEAR(share_of(out), chance, tolerance(chance, out.numel()));
    const at::Tensor rest = left.masked_select(left.ne(0));
    EXPECT_FLOAT_EQ(rest.min().item<float>(), static_cast<float>(1 / (1 - chance)));
    EXPECT_FLOAT_EQ(rest.max().item<float>(), static_cast<float>(1 / (1 - chance)));
    // What happens to a value says nothing of the next. Pairs that share one need more room.
    const at::Tensor both = out.narrow(1, 0, 999).logical_and(out.narrow(1, 1, 999));
    EXPECT_NEAR(share_of(both), chance * chance, 2 * tolerance(chance * chance, both.numel()));
  }
}

TEST(Dropout, DrawsTheSameOneByOneAndAllAtOnce) {
  RandomStream one_by_one{3, 5};
  RandomStream at_once{3, 5};
  for (const double chance : {0.1, 0.5, 0.999}) {
    const at::Tensor kept = kept_values(one_by_one, 10'007, chance);
    EXPECT_TRUE(at::equal(kept, kept_values_at_once(at_once, 10'007, chance, at::kCPU)));
    EXPECT_EQ(one_by_one.next(), at_once.next());  // both have gone as far
  }
}

TEST(Dropout, GivesGradientsTheSameFactorsInEveryPrecision) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    Dropout dropout(0.1);
    const at::Tensor values = at::ones({64, 64}, type).requires_grad_();
    const at::Tensor left = dropout.forward(values);
    EXPECT_EQ(left.scalar_type(), type);
    left.sum().backward();
    EXPECT_TRUE(at::equal(values.grad(), left.detach())) << type;
  }
}

TEST(Dropout, DependsOnSeedRankStepAndPartAlone) {
  for (const NetworkOptions& options : networks(0.5)) {
    SCOPED_TRACE(options.name);
    const auto network = test::seeded(options);
    const at::Tensor input = input_for(options);
    const auto scores = [&](const DropoutPass& pass) {
      draw_dropout(*network, pass);
      return network->forward(input);
    };
    const at::Tensor expected = scores({.seed = 1, .rank = 2, .step = 3, .part = 4});
    EXPECT_FALSE(at::equal(network->forward(input), expected));  // draws go on
    at::manual_seed(99);
    EXPECT_TRUE(at::equal(scores({.seed = 1, .rank = 2, .step = 3, .part = 4}), expected));
    EXPECT_FALSE(at::equal(scores({.seed = 2, .rank = 2, .step = 3, .part = 4}), expected));
    EXPECT_FALSE(at::equal(scores({.seed = 1, .rank = 3, .step = 3, .part = 4}), expected));
    EXPECT_FALSE(at::equal(scores({.seed = 1, .rank = 2, .step = 4, .part = 4}), expected));
    EXPECT_FALSE(at::equal(scores({.seed = 1, .rank = 2, .step = 3, .part = 0}), expected));
    const at::Tensor next = at::rand({4});
    at::manual_seed(99);
    EXPECT_TRUE(at::equal(at::rand({4}), next));  // LibTorch's generator was left alone
  }
}

TEST(Dropout, IsOfTrainingAlone) {
  for (std::size_t i = 0; i < 2; ++i) {
    const NetworkOptions options = networks(0.5)[i];
    SCOPED_TRACE(options.name);
    const auto plain = test::seeded(networks(0)[i]);
    const auto network = test::seeded(options);
    const at::Tensor input = input_for(options);
    EXPECT_FALSE(at::equal(network->forward(input), plain->forward(input)));
    network->eval();
    EXPECT_TRUE(at::equal(network->forward(input), plain->forward(input)));
  }
}

// The attention's part is 1 everywhere and that of the linear layers 10, so with a chance of a half
// their sum is 0, 2, 20 or 22, each as often as the others.
TEST(Dropout, IsOnBothThatABlockAdds) {
  const at::NoGradGuard no_grad;
  at::manual_seed(3);
  const auto block =
      std::make_shared<AttentionBlock>(AttentionShape{.width = 64, .heads = 2, .dropout = 0.5});
  initialise_attention(*block, /*blocks=*/1);
  const auto parameters = block->named_parameters();
  parameters["self_attention.out_proj.weight"].zero_();
  parameters["self_attention.out_proj.bias"].fill_(1);
  parameters["mlp.3.weight"].zero_();
  parameters["mlp.3.bias"].fill_(10);
  const at::Tensor input = at::zeros({4, 64, 64});
  const at::Tensor added = block->forward(input);
  for (const int value : {0, 2, 20, 22}) {
    EXPECT_NEAR(share_of(added.eq(value)), 0.25, tolerance(0.25, added.numel())) << value;
  }
  block->eval();
  EXPECT_EQ(share_of(block->forward(input).eq(11)), 1);
}

// The gradient of a place's embedding is 0 where the sum was left out, and only there.
TEST(Dropout, IsOnTheSumOfTheEmbeddings) {
  for (const double chance : {0.0, 0.25}) {
    for (const NetworkOptions& options : networks(chance)) {
      const auto network = test::seeded(options);
      network->forward(input_for(options)).square().sum().backward();
      const char* name = options.text ? "position_embedding" : "encoder.pos_embedding";
      const at::Tensor gradient = network->named_parameters()[name].grad();
      EXPECT_NEAR(share_of(gradient.eq(0)), chance, tolerance(chance, gradient.numel()))
          << options.name;
    }
  }
}

TEST(Dropout, IsRefusedWhereThereIsNone) {
  for (const double wrong : {-0.1, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THROW(check_dropout("transformer", wrong), ConfigError) << wrong;
  }
  for (const std::string& name : network_names()) {
    EXPECT_NO_THROW(check_dropout(name, 0)) << name;
    if (name == "transformer" || name == "vit-tiny") {
      EXPECT_NO_THROW(check_dropout(name, 0.1)) << name;
    } else {
      EXPECT_THROW(check_dropout(name, 0.1), ConfigError) << name;
    }
  }
  EXPECT_THROW(make_network({.name = "cnn", .dropout = 0.1}), ConfigError);
}

}  // namespace
}  // namespace daso
