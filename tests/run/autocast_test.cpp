// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "daso/run/loss.h"
#include "daso/run/precision.h"
#include "daso/tensor/bf16.h"
#include "nets/known_networks.h"

// Against PyTorch's own autocast, by the numbers of autocast_numbers.py.
namespace daso::test {
namespace {

using nlohmann::json;

// Before anything computes in bf16, which may trap.
const bool kCapped = (cap_instruction_sets(), true);

struct Differences {
  double loss = 0;
  std::vector<std::string> names;
  std::vector<double> gradients;  // of each parameter: the part of PyTorch's that differs

  double largest() const { return *std::max_element(gradients.begin(), gradients.end()); }
};

double difference(const at::Tensor& gradient, const json& expected) {
  const at::Tensor theirs = at::tensor(expected.at("values").get<std::vector<double>>());
  const auto stride = expected.at("stride").get<std::int64_t>();
  const at::Tensor ours =
      gradient.flatten().slice(/*dim=*/0, /*start=*/0, gradient.numel(), stride).to(at::kDouble);
  return (ours - theirs).norm().item<double>() / theirs.norm().item<double>();
}

// A forward and a backward pass as a session does them.
Differences differences(const json& expected, Precision precision) {
  const NetworkOptions options = options_of(expected);
  const auto network = make_network(options);
  fill(*network);
  const Examples examples = examples_for(options, expected.at("batch"));
  at::Tensor scores;
  {
    const Autocast autocast(precision);
    scores = network->forward(examples.inputs.to(at::kFloat)).to(at::kFloat);
  }
  const at::Tensor loss = training_loss(scores, examples.labels, /*smoothing=*/0);
  loss.backward();
  Differences found{.loss = std::abs(loss.item<double>() - expected.at("loss").get<double>())};
  for (const auto& item : network->named_parameters()) {
    found.names.push_back(item.key());
    found.gradients.push_back(
        difference(item.value().grad(), expected.at("gradients").at(item.key())));
  }
  return found;
}

json cases() {
  std::ifstream file(DASO_AUTOCAST_NUMBERS);
  return json::parse(file);
}

TEST(Autocast, ComputesWhatPytorchsDoes) {
  ASSERT_TRUE(kCapped);
  for (const json& expected : cases()) {
    SCOPED_TRACE(expected.at("network").get<std::string>());
    const Differences found = differences(expected, Precision::kBf16);
    EXPECT_LT(found.loss, 3e-4);
    EXPECT_EQ(found.names.size(), expected.at("gradients").size());
    for (std::size_t i = 0; i < found.names.size(); ++i) {
      EXPECT_LT(found.gradients[i], expected.at("tolerance").get<double>()) << found.names[i];
    }
  }
}

// Else the test above would not notice that nothing is cast.
TEST(Autocast, IsFarFromFp32) {
  for (const json& expected : cases()) {
    SCOPED_TRACE(expected.at("network").get<std::string>());
    const Differences found = differences(expected, Precision::kFp32);
    EXPECT_GT(found.loss, 5e-4);
    EXPECT_GT(found.largest(), 4 * expected.at("tolerance").get<double>());
  }
}

}  // namespace
}  // namespace daso::test
