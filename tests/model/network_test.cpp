// SPDX-License-Identifier: Apache-2.0
#include "daso/model/network.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/model/flat_model.h"

namespace daso {
namespace {

// The smallest input of each network, with few enough classes to be quick.
std::vector<NetworkOptions> smallest_networks() {
  return {{.name = "mlp", .channels = 1, .height = 1, .width = 1, .classes = 2},
          {.name = "cnn", .channels = 1, .height = 8, .width = 8, .classes = 3},
          {.name = "resnet20", .channels = 3, .height = 8, .width = 8, .classes = 10},
          {.name = "resnet18", .channels = 1, .height = 32, .width = 32, .classes = 5},
          {.name = "resnet50", .channels = 4, .height = 32, .width = 32, .classes = 5}};
}

std::shared_ptr<Network> seeded(const NetworkOptions& options) {
  at::manual_seed(11);
  return make_network(options);
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
  EXPECT_EQ(parameters_of({.name = "resnet20", .classes = 10}), 269'722);
  // From the layers: weights, then biases or BatchNorm's scale and shift.
  EXPECT_EQ(parameters_of({.name = "cnn", .channels = 3, .classes = 10}),
            9 * (3 * 32 + 32 * 64 + 64 * 128) + 2 * (32 + 64 + 128) + 128 * 10 + 10);
  EXPECT_EQ(parameters_of({.name = "mlp", .channels = 1, .height = 28, .width = 27, .classes = 10}),
            28 * 27 * 256 + 256 * 256 + 256 * 10 + 256 + 256 + 10);
}

// --- comparison with Python ---

using Named = torch::OrderedDict<std::string, at::Tensor>;

// As numbers() and fill() of network_numbers.py.
at::Tensor numbers(at::IntArrayRef shape, std::int64_t order) {
  const at::Tensor i = at::arange(c10::multiply_integers(shape), at::kLong);
  const at::Tensor integers = (i * i * 31 + i * 17 + order * 101).remainder(2003);
  return (integers.to(at::kDouble) / 1001.5 - 1).reshape(shape);
}

void fill(Network& network) {
  const at::NoGradGuard no_grad;
  const Named parameters = network.named_parameters();
  for (std::size_t order = 0; order < parameters.size(); ++order) {
    const at::Tensor& tensor = parameters[order].value();
    const at::Tensor values = numbers(tensor.sizes(), static_cast<std::int64_t>(order));
    if (tensor.dim() > 1) {
      tensor.copy_(values * std::sqrt(6.0 / static_cast<double>(tensor[0].numel())));
    } else {
      tensor.copy_(values * 0.2 + (parameters[order].key().ends_with("weight") ? 1 : 0));
    }
  }
  const Named buffers = network.named_buffers();
  for (std::size_t order = 0; order < buffers.size(); ++order) {
    const at::Tensor& tensor = buffers[order].value();
    if (tensor.dim() == 0) continue;  // the number of batches
    const at::Tensor values = numbers(tensor.sizes(), static_cast<std::int64_t>(order));
    tensor.copy_(values * 0.3 + (buffers[order].key().ends_with("var") ? 1 : 0));
  }
}

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
  ASSERT_EQ(scores.size(1), static_cast<std::int64_t>(expected.size())) << what;
  for (std::int64_t i = 0; i < scores.size(1); ++i) {
    expect_close(scores[0][i].item<double>(), expected[static_cast<std::size_t>(i)], what);
  }
}

void compare(const nlohmann::json& expected) {
  const NetworkOptions options{.name = expected["network"],
                               .channels = expected["channels"],
                               .height = expected["height"],
                               .width = expected["width"],
                               .classes = expected["classes"]};
  const auto network = make_network(options);
  network->to(at::kDouble);
  ASSERT_EQ(digest(layout(*network)), expected["layout"]) << layout(*network);
  fill(*network);
  const std::int64_t batch = expected["batch"];
  const at::Tensor images =
      numbers({batch, options.channels, options.height, options.width}, /*order=*/7);

  network->eval();
  expect_scores(network->forward(images), expected["eval_scores"], "eval");
  network->train();
  const at::Tensor scores = network->forward(images);
  expect_scores(scores, expected["train_scores"], "train");
  const at::Tensor labels = at::arange(batch, at::kLong).remainder(options.classes);
  const at::Tensor loss = at::cross_entropy_loss(scores, labels);
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
  expect_scores(network->forward(images), expected["scores_after_the_step"], "after the step");
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
    const auto network = seeded({.name = name, .height = 64, .width = 64});
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
  const auto basic = seeded({.name = "resnet18"})->named_parameters();
  const auto bottleneck = seeded({.name = "resnet50"})->named_parameters();
  const auto small = seeded({.name = "resnet20"})->named_parameters();
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
    const FlatModel one(seeded(options));
    const FlatModel other(seeded(options));
    EXPECT_TRUE(at::equal(one.parameters(), other.parameters())) << options.name;
  }
}

// --- use ---

TEST(Network, GivesTheSameBitsAgain) {
  for (const NetworkOptions& options : smallest_networks()) {
    const auto one = seeded(options);
    const auto other = seeded(options);
    const at::Tensor images = images_for(options, /*batch=*/4);
    EXPECT_TRUE(at::equal(one->forward(images), other->forward(images))) << options.name;
    one->eval();
    EXPECT_TRUE(at::equal(one->forward(images), one->forward(images))) << options.name;
  }
}

TEST(Network, TakesItsSmallestInput) {
  for (const NetworkOptions& options : smallest_networks()) {
    const auto network = seeded(options);
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
    options.height += 3;
    options.width += 18;
    const at::Tensor scores = seeded(options)->forward(images_for(options, /*batch=*/2));
    EXPECT_EQ(scores.sizes(), (std::vector<std::int64_t>{2, options.classes})) << options.name;
  }
}

TEST(Network, IsTheSameOnFlatTensors) {
  for (const NetworkOptions& options : smallest_networks()) {
    SCOPED_TRACE(options.name);
    const auto plain = seeded(options);
    const auto network = seeded(options);
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
  const std::string message = refusal({.name = "resnet51"});
  expect_in("there is no model 'resnet51'", message);
  expect_in("did you mean 'resnet50'?", message);
  expect_in("models: mlp, cnn, resnet20, resnet18, resnet50", message);
  EXPECT_EQ(refusal({.name = "something else"}).find("did you mean"), std::string::npos);
}

TEST(Network, RefusesImagesThatAreTooSmall) {
  for (NetworkOptions options : smallest_networks()) {
    if (options.name == "mlp") continue;
    const int smallest = options.height;
    --options.height;
    const std::string message = refusal(options);
    expect_in(fmt::format("model '{0}' needs images of at least {1}x{1} pixels, these have {2}x{1}",
                          options.name, smallest, smallest - 1),
              message);
    expect_in("mlp (from 1x1)", message);
    std::swap(options.height, options.width);
    expect_in("at least", refusal(options));
  }
}

TEST(Network, RefusesNumbersThatMakeNoSense) {
  expect_in("the model's channels must lie in 1 ... 65536, asked for 0", refusal({.channels = 0}));
  expect_in("height must lie in", refusal({.name = "mlp", .height = -1}));
  expect_in("width must lie in", refusal({.name = "mlp", .width = 2'000'000'000}));
  expect_in("the model's classes must lie in 2 ... 65536, asked for 1", refusal({.classes = 1}));
}

}  // namespace
}  // namespace daso
