// SPDX-License-Identifier: Apache-2.0
#include "daso/nets/network.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/tensor/flat_model.h"
#include "nets/known_networks.h"

namespace daso {
namespace {

// The smallest input of each network, with few enough classes to be quick.
std::vector<NetworkOptions> smallest_networks() {
  return {{.name = "mlp", .channels = 1, .height = 1, .width = 1, .classes = 2},
          {.name = "cnn", .channels = 1, .height = 8, .width = 8, .classes = 3},
          {.name = "resnet32", .channels = 3, .height = 8, .width = 8, .classes = 10},
          {.name = "resnet18", .channels = 1, .height = 32, .width = 32, .classes = 5},
          {.name = "resnet50", .channels = 4, .height = 32, .width = 32, .classes = 5},
          {.name = "vit-tiny", .channels = 1, .height = 8, .width = 8, .classes = 5}};
}

at::Tensor images_for(const NetworkOptions& options, std::int64_t batch) {
  return at::randn({batch, options.channels, options.height, options.width});
}

std::int64_t parameters_of(const NetworkOptions& options) {
  return FlatModel(make_network(options)).elements();
}

std::string refusal(const NetworkOptions& options) {
  try {
    make_network(options);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "not refused";
}

void expect_in(const std::string& part, const std::string& whole) {
  EXPECT_NE(whole.find(part), std::string::npos) << "'" << part << "' is not in: " << whole;
}

TEST(Network, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters_of({.name = "resnet18", .classes = 1000}), 11'689'512);
  EXPECT_EQ(parameters_of({.name = "resnet50", .classes = 1000}), 25'557'032);
  EXPECT_EQ(parameters_of({.name = "resnet34", .classes = 1000}), 21'797'672);
  EXPECT_EQ(parameters_of({.name = "resnet101", .classes = 1000}), 44'549'160);
  EXPECT_EQ(parameters_of({.name = "resnet152", .classes = 1000}), 60'192'808);
  EXPECT_EQ(parameters_of({.name = "vit-tiny", .height = 224, .width = 224, .classes = 1000}),
            5'717'416);
  EXPECT_EQ(parameters_of({.name = "resnet20", .classes = 10}), 269'722);
  EXPECT_EQ(parameters_of({.name = "resnet32", .classes = 10}), 464'154);
  EXPECT_EQ(parameters_of({.name = "resnet44", .classes = 10}), 658'586);
  EXPECT_EQ(parameters_of({.name = "resnet56", .classes = 10}), 853'018);
  // From the layers: weights, then biases or BatchNorm's scale and shift.
  EXPECT_EQ(parameters_of({.name = "cnn", .channels = 3, .classes = 10}),
            9 * (3 * 32 + 32 * 64 + 64 * 128) + 2 * (32 + 64 + 128) + 128 * 10 + 10);
  EXPECT_EQ(parameters_of({.name = "mlp", .channels = 1, .height = 28, .width = 27, .classes = 10}),
            28 * 27 * 256 + 256 * 256 + 256 * 10 + 256 + 256 + 10);
  // Tokens and places; in each block 12 e^2 weights, 9 e biases, two norms; the last norm.
  constexpr int kE = 128;
  EXPECT_EQ(parameters_of({.name = "transformer", .text = true, .width = 64, .classes = 256}),
            (256 + 64) * kE + 2 * (12 * kE * kE + 9 * kE + 4 * kE) + 2 * kE);
}

// --- comparison with Python ---

using test::examples_for;
using test::fill;
using test::options_of;
using Named = torch::OrderedDict<std::string, at::Tensor>;

std::string layout(const Network& network) {
  std::string lines;
  for (const Named& tensors : {network.named_parameters(), network.named_buffers()}) {
    for (const auto& item : tensors) {
      std::vector<std::string> sizes;
      for (const std::int64_t size : item.value().sizes()) sizes.push_back(std::to_string(size));
      lines += fmt::format("{} [{}]\n", item.key(), join(sizes, ", "));
    }
  }
  return lines;
}

// Both sides count in double precision, so that what differs is more than rounding.
void expect_close(double value, double expected, const std::string& what) {
  EXPECT_NEAR(value, expected, 1e-8 * std::max(1.0, std::abs(expected))) << what;
}

void expect_scores(const at::Tensor& scores, const nlohmann::json& expected, const char* what) {
  const at::Tensor first = scores[0].flatten();
  ASSERT_EQ(first.numel(), static_cast<std::int64_t>(expected.size())) << what;
  for (std::int64_t i = 0; i < first.numel(); ++i) {
    expect_close(first[i].item<double>(), expected[static_cast<std::size_t>(i)], what);
  }
}

void compare(const nlohmann::json& expected) {
  const NetworkOptions options = options_of(expected);
  const auto network = make_network(options);
  network->to(at::kDouble);
  ASSERT_EQ(digest(layout(*network)), expected["layout"]) << layout(*network);
  fill(*network);
  const auto [inputs, labels] = examples_for(options, expected["batch"]);

  network->eval();
  expect_scores(network->forward(inputs), expected["eval_scores"], "eval");
  network->train();
  const at::Tensor scores = network->forward(inputs);
  expect_scores(scores, expected["train_scores"], "train");
  const at::Tensor loss = at::cross_entropy_loss(scores.flatten(0, -2), labels.flatten());
  expect_close(loss.item<double>(), expected["loss"], "loss");
  loss.backward();

  double square = 0;
  const Named parameters = network->named_parameters();
  for (const auto& item : parameters) {
    square += item.value().grad().square().sum().item<double>();
  }
  expect_close(std::sqrt(square), expected["gradient_norm"], "gradient of all parameters");
  for (const auto& [name, norm] : expected["gradient_norms"].items()) {
    expect_close(parameters[name].grad().norm().item<double>(), norm, "gradient of " + name);
  }
  const Named buffers = network->named_buffers();
  for (const auto& [name, norm] : expected["running_norms"].items()) {
    expect_close(buffers[name].norm().item<double>(), norm, name);
  }
  for (const auto& item : buffers) {
    if (item.value().dim() > 0) continue;
    EXPECT_EQ(item.value().item<double>(), 1) << item.key();
  }
  const at::NoGradGuard no_grad;
  for (const auto& item : parameters) {
    item.value().sub_(item.value().grad() * expected["rate"].get<double>());
  }
  network->eval();
  expect_scores(network->forward(inputs), expected["scores_after_the_step"], "after the step");
}

TEST(Network, ComputesWhatPythonComputes) {
  std::ifstream file(DASO_NETWORK_NUMBERS);
  std::set<std::string> compared;
  for (const nlohmann::json& expected : nlohmann::json::parse(file)) {
    SCOPED_TRACE(expected["network"].get<std::string>());
    compare(expected);
    compared.insert(expected["network"]);
  }
  for (const std::string& name : network_names()) EXPECT_TRUE(compared.contains(name)) << name;
}

// --- first values ---

TEST(Network, DrawsConvolutionsByFanOut) {
  for (const char* name : {"resnet18", "resnet20", "cnn"}) {
    const auto network = test::seeded({.name = name, .height = 64, .width = 64});
    for (const auto& item : network->named_parameters()) {
      const at::Tensor& tensor = item.value();
      if (tensor.dim() != 4) continue;
      const double expected = std::sqrt(2.0 / static_cast<double>(tensor.numel() / tensor.size(1)));
      // Six standard errors of a standard deviation.
      const double error = 6 / std::sqrt(2.0 * static_cast<double>(tensor.numel()));
      EXPECT_NEAR(tensor.std().item<double>() / expected, 1, error) << name << " " << item.key();
    }
  }
}

TEST(Network, StartsResidualBlocksAsTheIdentity) {
  const auto basic = test::seeded({.name = "resnet18"})->named_parameters();
  const auto bottleneck = test::seeded({.name = "resnet50"})->named_parameters();
  const auto small = test::seeded({.name = "resnet20"})->named_parameters();
  for (int block = 0; block < 2; ++block) {
    const std::string prefix = fmt::format("layer4.{}.", block);
    EXPECT_EQ(basic[prefix + "bn1.weight"].min().item<float>(), 1);
    EXPECT_EQ(basic[prefix + "bn2.weight"].abs().max().item<float>(), 0);
    EXPECT_EQ(bottleneck[prefix + "bn2.weight"].min().item<float>(), 1);
    EXPECT_EQ(bottleneck[prefix + "bn3.weight"].abs().max().item<float>(), 0);
  }
  EXPECT_EQ(bottleneck["layer1.0.downsample.1.weight"].min().item<float>(), 1);
  EXPECT_TRUE(basic["layer4.0.bn2.weight"].requires_grad());
  EXPECT_EQ(small["layer3.2.bn2.weight"].min().item<float>(), 1);  // as in the paper
}

TEST(Network, ComesFromTheSeedAlone) {
  for (const NetworkOptions& options : smallest_networks()) {
    const FlatModel one(test::seeded(options));
    const FlatModel other(test::seeded(options));
    EXPECT_TRUE(at::equal(one.parameters(), other.parameters())) << options.name;
  }
}

// --- use ---

TEST(Network, GivesTheSameBitsAgain) {
  for (const NetworkOptions& options : smallest_networks()) {
    const auto one = test::seeded(options);
    const auto other = test::seeded(options);
    const at::Tensor images = images_for(options, /*batch=*/4);
    EXPECT_TRUE(at::equal(one->forward(images), other->forward(images))) << options.name;
    one->eval();
    EXPECT_TRUE(at::equal(one->forward(images), one->forward(images))) << options.name;
  }
}

TEST(Network, TakesItsSmallestInput) {
  for (const NetworkOptions& options : smallest_networks()) {
    const auto network = test::seeded(options);
    const at::Tensor images = images_for(options, /*batch=*/2);
    const at::Tensor scores = network->forward(images);
    EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{2, options.classes})) << options.name;
    scores.square().sum().backward();
    network->eval();
    EXPECT_TRUE(network->forward(images).isfinite().all().item<bool>()) << options.name;
  }
}

TEST(Network, TakesImagesThatAreNotSquare) {
  for (NetworkOptions options : smallest_networks()) {
    options.height += 4;  // patches of vit-tiny are 4x4
    options.width += 20;
    const at::Tensor scores = test::seeded(options)->forward(images_for(options, /*batch=*/2));
    EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{2, options.classes})) << options.name;
  }
}

TEST(Network, IsTheSameOnFlatTensors) {
  for (const NetworkOptions& options : smallest_networks()) {
    SCOPED_TRACE(options.name);
    const auto plain = test::seeded(options);
    const auto network = test::seeded(options);
    FlatModel flat(network);
    const at::Tensor images = images_for(options, /*batch=*/4);
    const at::Tensor expected = plain->forward(images);
    const at::Tensor scores = network->forward(images);
    EXPECT_TRUE(at::allclose(scores, expected, 1e-4, 1e-5));
    expected.square().mean().backward();
    scores.square().mean().backward();
    flat.check();
    const auto gradients = plain->named_parameters();
    for (const auto& item : network->named_parameters()) {
      const at::Tensor& gradient = gradients[item.key()].grad();
      const double size = gradient.norm().item<double>();
      const double difference = (item.value().grad() - gradient).norm().item<double>();
      EXPECT_LE(difference, 1e-3 * size + 1e-6) << item.key();
    }
    const auto buffers = plain->named_buffers();
    for (const auto& item : network->named_buffers()) {
      EXPECT_TRUE(at::allclose(item.value(), buffers[item.key()], 1e-4, 1e-5)) << item.key();
    }
  }
}

// --- refusals ---

TEST(Network, RefusesAnUnknownName) {
  const std::string message = refusal({.name = "resnt50"});
  expect_in("there is no model 'resnt50'", message);
  expect_in("did you mean 'resnet50'?", message);
  expect_in("models: mlp, cnn, resnet20, resnet32", message);
  EXPECT_EQ(refusal({.name = "something else"}).find("did you mean"), std::string::npos);
}

TEST(Network, RefusesImagesThatAreTooSmall) {
  for (NetworkOptions options : smallest_networks()) {
    if (options.name == "mlp") continue;
    const int smallest = options.height;
    --options.height;  // below a patch of vit-tiny as well
    const std::string message = refusal(options);
    expect_in(fmt::format("model '{0}' needs images of at least {1}x{1} pixels, these have {2}x{1}",
                          options.name, smallest, smallest - 1),
              message);
    expect_in("mlp (from 1x1)", message);
    std::swap(options.height, options.width);
    expect_in("at least", refusal(options));
  }
}

TEST(Network, RefusesDataOfAnotherKind) {
  expect_in("model 'cnn' is for images, the data holds texts; take model 'transformer'",
            refusal({.name = "cnn", .text = true}));
  expect_in("model 'transformer' is for texts, the data holds images",
            refusal({.name = "transformer"}));
  expect_in("patches of 16x16 pixels: 100x96 is no multiple",
            refusal({.name = "vit-tiny", .height = 100, .width = 96}));
}

TEST(Transformer, SeesOnlyWhatCameBefore) {
  const NetworkOptions options{.name = "transformer", .text = true, .width = 8, .classes = 5};
  const auto network = test::seeded(options);
  const at::Tensor text = at::tensor({0, 1, 2, 3, 4, 3, 2, 1}, at::kLong).unsqueeze(0);
  at::Tensor other = text.clone();
  other[0][5] = 0;
  const at::Tensor scores = network->forward(text);
  const at::Tensor changed = network->forward(other);
  EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{1, 8, 5}));
  EXPECT_TRUE(at::allclose(scores.narrow(1, 0, 5), changed.narrow(1, 0, 5), 1e-5, 1e-6));
  EXPECT_FALSE(at::allclose(scores.narrow(1, 5, 1), changed.narrow(1, 5, 1), 1e-3, 1e-4));
}

TEST(Transformer, UsesOneEmbeddingAtBothEnds) {
  const NetworkOptions options{.name = "transformer", .text = true, .width = 4, .classes = 6};
  const auto network = test::seeded(options);
  const FlatModel flat(network);
  std::int64_t with_tokens = 0;
  for (const FlatSpan& span : flat.parameter_spans()) {
    if (span.elements == std::int64_t{6} * options.transformer.embedding) ++with_tokens;
  }
  EXPECT_EQ(with_tokens, 1);
}

TEST(Transformer, RefusesHeadsThatDoNotShareTheEmbedding) {
  NetworkOptions options{.name = "transformer", .text = true, .width = 4, .classes = 6};
  options.transformer.heads = 3;
  expect_in("128 is no multiple of 3 heads", refusal(options));
  options.transformer.layers = 0;
  expect_in("the model's layers must lie in 1 ... 65536, asked for 0", refusal(options));
}

// Of images of 32x32 a resnet for photographs makes one pixel: with one example BatchNorm has one
// value per channel, which LibTorch refuses in training.
TEST(Network, OfOnePixelIsRefusedForASingleExample) {
  const auto is_refused = [](const NetworkOptions& options) {
    try {
      check_single_example(options);
    } catch (const ConfigError& error) {
      expect_in("give batches of 2 or more", error.what());
      return true;
    }
    return false;
  };
  for (const NetworkOptions& options : smallest_networks()) {
    const auto network = test::seeded(options);
    network->train();
    bool fails = false;
    try {
      network->forward(images_for(options, 1));
    } catch (const c10::Error&) {
      fails = true;
    }
    EXPECT_EQ(is_refused(options), fails) << options.name;
  }
  EXPECT_TRUE(is_refused({.name = "resnet34"}));
  EXPECT_FALSE(is_refused({.name = "resnet34", .height = 33}));
  EXPECT_FALSE(is_refused({.name = "resnet34", .width = 33}));
}

TEST(Network, RefusesNumbersThatMakeNoSense) {
  expect_in("the model's channels must lie in 1 ... 65536, asked for 0", refusal({.channels = 0}));
  expect_in("height must lie in", refusal({.name = "mlp", .height = -1}));
  expect_in("width must lie in", refusal({.name = "mlp", .width = 2'000'000'000}));
  expect_in("the model's classes must lie in 2 ... 65536, asked for 1", refusal({.classes = 1}));
}

}  // namespace
}  // namespace daso
