// SPDX-License-Identifier: Apache-2.0
#include "bench/emulated_model.h"

#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include "daso/tensor/flat_model.h"

namespace daso::bench {
namespace {

TEST(EmulatedModel, FirstLayersTakeWhatDoesNotDivide) {
  EXPECT_EQ(layer_elements({.layers = 3, .parameters = 6}), (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(layer_elements({.layers = 4, .parameters = 10}),
            (std::vector<std::int64_t>{3, 3, 2, 2}));
}

TEST(EmulatedModel, EveryBackwardAddsTheSameGradient) {
  EmulatedModel work({.layers = 3, .parameters = 8, .forward = Seconds(0), .backward = Seconds(0)});
  const FlatModel model(work.module());
  for (int i = 1; i <= 2; ++i) {
    work.forward().backward();
    for (const FlatSpan& span : model.parameter_spans()) {
      const at::Tensor part = model.gradients().narrow(0, span.offset, span.elements);
      EXPECT_FLOAT_EQ(part.min().item<float>(), static_cast<float>(i * EmulatedModel::kGradient));
      EXPECT_FLOAT_EQ(part.max().item<float>(), static_cast<float>(i * EmulatedModel::kGradient));
    }
  }
  model.check();
}

struct Ready {
  std::size_t layer = 0;
  Seconds after{0};  // backward's start
};

// When the gradient of each layer is there, in the order of time, with a host that is busy for a
// while with every one.
std::vector<Ready> ready_in(EmulatedModel& work, Seconds busy) {
  std::vector<Ready> ready;
  Clock::time_point start;
  std::vector<at::Tensor> weights = work.module()->parameters();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i].register_hook([&, i, busy](const at::Tensor&) {
      ready.push_back({i, since(start)});
      sleep_until(Deadline(busy).when());
    });
  }
  const at::Tensor loss = work.forward();
  start = Clock::now();
  loss.backward();
  return ready;
}

TEST(EmulatedModel, GradientsAreReadyAfterTheirShareOfBackwardLastLayerFirst) {
  constexpr Seconds kShare{0.2};
  EmulatedModel work({.layers = 4, .parameters = 8, .forward = Seconds(0), .backward = 4 * kShare});
  const std::vector<Ready> ready = ready_in(work, Seconds(0.16));
  ASSERT_EQ(ready.size(), 4U);
  for (std::size_t turn = 0; turn < 4; ++turn) {
    EXPECT_EQ(ready[turn].layer, 3 - turn);
    EXPECT_GE(ready[turn].after.count(), (static_cast<double>(turn) + 1) * kShare.count());
  }
  // An accelerator does not wait for its host: else the last were ready at 4 x 0.2 + 3 x 0.16 s.
  EXPECT_LT(ready.back().after.count(), 1.2);
}

TEST(EmulatedModel, ForwardTakesItsTime) {
  EmulatedModel work(
      {.layers = 2, .parameters = 2, .forward = Seconds(0.02), .backward = Seconds(0)});
  const auto start = Clock::now();
  work.forward();
  EXPECT_GE(since(start).count(), 0.02);
}

}  // namespace
}  // namespace daso::bench
