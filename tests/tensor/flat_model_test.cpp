// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/flat_model.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include "daso/base/error.h"

namespace daso {
namespace {

// A bit of everything: channels_last weights, BatchNorm buffers, a frozen layer in the middle, a
// parameter that gets no gradient, one without elements, and a tied pair.
struct Zoo : torch::nn::Module {
  Zoo() {
    convolution = register_module("convolution", torch::nn::Conv2d(3, 8, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    frozen = register_module("frozen", torch::nn::Linear(8, 8));
    for (at::Tensor& parameter : frozen->parameters()) parameter.set_requires_grad(false);
    unused = register_parameter("unused", at::ones({5}));
    empty = register_parameter("empty", at::ones({0, 3}));
    head = register_module("head", torch::nn::Linear(8, 8));
    tied = register_parameter("tied", head->weight);
    convolution->weight.set_data(convolution->weight.contiguous(at::MemoryFormat::ChannelsLast));
  }
  at::Tensor forward(const at::Tensor& images) {
    const at::Tensor features = norm(convolution(images)).mean({2, 3});
    return at::linear(at::relu(head(frozen(features))), tied);
  }
  torch::nn::Conv2d convolution{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear frozen{nullptr};
  torch::nn::Linear head{nullptr};
  at::Tensor unused;
  at::Tensor empty;
  at::Tensor tied;
};

std::shared_ptr<Zoo> zoo() {
  at::manual_seed(7);
  return std::make_shared<Zoo>();
}

std::vector<std::string> names(const std::vector<FlatSpan>& spans) {
  std::vector<std::string> list;
  for (const FlatSpan& span : spans) list.push_back(span.name);
  return list;
}

TEST(FlatModel, LaysTensorsOutInReverseOrderOfRegistration) {
  const FlatModel flat(zoo());
  // Of one module its own parameters come before those of its children; the tied one is in once.
  EXPECT_EQ(names(flat.parameter_spans()),
            (std::vector<std::string>{"head.bias", "norm.bias", "norm.weight", "convolution.bias",
                                      "convolution.weight", "tied", "empty", "unused"}));
  EXPECT_EQ(names(flat.buffer_spans()),
            (std::vector<std::string>{"norm.running_var", "norm.running_mean"}));
  std::int64_t offset = 0;
  for (const FlatSpan& span : flat.parameter_spans()) {
    EXPECT_EQ(span.offset, offset) << span.name;
    offset += span.elements;
  }
  EXPECT_EQ(flat.elements(), 8 + 8 + 8 + 8 + 8 * 3 * 3 * 3 + 64 + 0 + 5);
  EXPECT_EQ(flat.elements(), offset);
  EXPECT_EQ(flat.parameters().numel(), 512);  // 317 padded to a multiple of 256
  EXPECT_EQ(flat.parameters().slice(0, offset).count_nonzero().item<std::int64_t>(), 0);
}

TEST(FlatModel, KeepsEveryValueAndTheOrderInMemory) {
  const auto plain = zoo();
  const auto module = zoo();
  const FlatModel flat(module);
  const auto before = plain->named_parameters();
  for (const auto& item : module->named_parameters()) {
    EXPECT_TRUE(at::equal(item.value(), before[item.key()])) << item.key();
  }
  EXPECT_TRUE(module->convolution->weight.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(module->tied.is_same(module->head->weight));
  flat.check();
}

// The same training with LibTorch's own tensors and optimizer.
TEST(FlatModel, TrainsLikeTheModuleItCameFrom) {
  const auto plain = zoo();
  const auto module = zoo();
  FlatModel flat(module);
  std::vector<at::Tensor> each_once = plain->parameters();
  // LibTorch's optimizer would step the tied weight twice: the name registered second goes.
  std::erase_if(each_once, [&, seen = 0](const at::Tensor& parameter) mutable {
    return parameter.is_same(plain->tied) && ++seen == 2;
  });
  torch::optim::SGD optimizer(each_once, torch::optim::SGDOptions(0.1));
  for (int step = 0; step < 5; ++step) {
    const at::Tensor images = at::randn({4, 3, 6, 6});
    optimizer.zero_grad();
    plain->forward(images).square().sum().backward();
    optimizer.step();
    flat.zero_gradients();
    module->forward(images).square().sum().backward();
    flat.check();
    const at::NoGradGuard no_grad;
    flat.parameters().sub_(flat.gradients(), 0.1);
  }
  const auto expected = plain->named_parameters();
  for (const auto& item : module->named_parameters()) {
    if (item.value().numel() == 0) continue;
    const auto difference = (item.value() - expected[item.key()]).abs().max().item<float>();
    EXPECT_LT(difference, 1e-5) << item.key();
  }
  EXPECT_TRUE(at::allclose(module->norm->running_var, plain->norm->running_var));
}

TEST(FlatModel, ParametersWithoutGradientKeepZeros) {
  const auto module = zoo();
  FlatModel flat(module);
  module->forward(at::randn({2, 3, 6, 6})).sum().backward();
  EXPECT_EQ(module->unused.grad().count_nonzero().item<std::int64_t>(), 0);
  EXPECT_GT(flat.gradients().count_nonzero().item<std::int64_t>(), 0);
}

TEST(FlatModel, NoticesValuesThatWereReplaced) {
  const auto module = zoo();
  const FlatModel flat(module);
  module->head->bias.set_data(at::zeros({8}));
  try {
    flat.check();
    FAIL() << "not noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the value of 'head.bias'"), std::string::npos);
  }
}

TEST(FlatModel, NoticesGradientsThatWereReplaced) {
  const auto module = zoo();
  const FlatModel flat(module);
  module->zero_grad();  // drops the views
  EXPECT_THROW(flat.check(), Error);
}

TEST(FlatModel, NoticesABackwardThatReplacesGradients) {
  const auto module = zoo();
  const FlatModel flat(module);
  module->forward(at::randn({2, 3, 6, 6})).square().sum().backward({}, true, /*create_graph=*/true);
  EXPECT_THROW(flat.check(), Error);
}

TEST(FlatModel, NoticesBuffersThatWereReplaced) {
  const auto module = zoo();
  const FlatModel flat(module);
  module->norm->running_mean.set_data(at::zeros({8}));
  EXPECT_THROW(flat.check(), Error);
}

TEST(FlatModel, NamesEveryTensorOfTheModule) {
  const auto module = zoo();
  const FlatModel flat(module);
  const std::map<std::string, at::Tensor> parameters = flat.named_parameters();
  EXPECT_EQ(parameters.size(), 11U);  // two of each of the four layers, and three
  EXPECT_TRUE(parameters.at("frozen.bias").is_same(module->frozen->bias));
  EXPECT_TRUE(parameters.at("tied").is_same(module->tied));
  EXPECT_TRUE(parameters.at("head.weight").is_same(module->tied));
  const std::map<std::string, at::Tensor> buffers = flat.named_buffers();
  EXPECT_EQ(buffers.size(), 3U);
  EXPECT_TRUE(buffers.at("norm.running_mean").is_same(module->norm->running_mean));
  EXPECT_TRUE(buffers.at("norm.num_batches_tracked").is_same(module->norm->num_batches_tracked));
}

TEST(FlatModel, LoadsIntoItsViews) {
  const auto module = zoo();
  FlatModel flat(module);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& item : module->named_parameters()) tensors[item.key()] = item.value() + 1;
  for (const auto& item : module->named_buffers()) tensors[item.key()] = item.value() + 1;
  const at::Tensor before = flat.parameters().slice(0, 0, flat.elements()).clone();
  flat.load(tensors);
  flat.check();
  EXPECT_TRUE(at::equal(flat.parameters().slice(0, 0, flat.elements()), before + 1));
  EXPECT_TRUE(at::equal(module->frozen->bias, tensors["frozen.bias"]));
  EXPECT_EQ(module->norm->num_batches_tracked.item<std::int64_t>(), 1);
}

TEST(FlatModel, RefusesToLoadWhatDoesNotFit) {
  const auto module = zoo();
  FlatModel flat(module);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& item : module->named_parameters()) tensors[item.key()] = item.value() + 1;
  EXPECT_THROW(flat.load(tensors), ConfigError);  // buffers are missing
  for (const auto& item : module->named_buffers()) tensors[item.key()] = item.value();
  tensors["head.bias"] = at::zeros({9});
  EXPECT_THROW(flat.load(tensors), ConfigError);
  tensors["head.bias"] = at::zeros({8});
  tensors["strange"] = at::zeros({1});
  EXPECT_THROW(flat.load(tensors), ConfigError);
  EXPECT_TRUE(at::equal(flat.parameters(), FlatModel(zoo()).parameters()));  // nothing was copied
}

TEST(FlatModel, RefusesOtherTypesAndEmptyModules) {
  const auto module = zoo();
  module->to(at::kDouble);
  EXPECT_THROW(FlatModel{module}, ConfigError);
  EXPECT_THROW(FlatModel{std::make_shared<torch::nn::Module>("empty")}, ConfigError);
}

TEST(FlatModel, FindsTheTensorOfAnElement) {
  const std::vector<FlatSpan> spans = {{"a", 0, 3}, {"none", 3, 0}, {"b", 3, 2}};
  EXPECT_EQ(span_at(spans, 0)->name, "a");
  EXPECT_EQ(span_at(spans, 2)->name, "a");
  EXPECT_EQ(span_at(spans, 3)->name, "b");
  EXPECT_EQ(span_at(spans, 5), nullptr);
}

}  // namespace
}  // namespace daso
