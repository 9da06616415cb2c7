// SPDX-License-Identifier: Apache-2.0
#include "daso/run/loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>

#include "daso/base/error.h"
#include "late_lane.h"

namespace daso {
namespace {

// Scores whose probabilities are 1/2, 1/4, 1/8, 1/8.
at::Tensor scores() {
  return at::tensor({std::log(4.0F), std::log(2.0F), 0.0F, 0.0F}).view({1, 4});
}

TEST(TrainingLoss, IsTheCrossEntropyOfSmoothedLabels) {
  const at::Tensor label = at::full({1}, 1, at::kLong);
  const double two = std::log(2.0);
  EXPECT_NEAR(training_loss(scores(), label, 0).item<double>(), 2 * two, 1e-6);
  // 0.6 of the label's, and a tenth of each: (1 + 2 + 3 + 3) log 2 in all.
  EXPECT_NEAR(training_loss(scores(), label, 0.4).item<double>(), (0.6 * 2 + 0.1 * 9) * two, 1e-6);
}

TEST(TrainingLoss, IsAMeanOverTheBatch) {
  const at::Tensor two_rows = at::cat({scores(), at::zeros({1, 4})});
  const at::Tensor labels = at::tensor({0, 3}, at::kLong);
  const double two = std::log(2.0);
  const double first = 0.8 * 1 + 0.05 * 9;  // in units of log 2
  const double second = 2;                  // four equal ones, whatever the label
  EXPECT_NEAR(training_loss(two_rows, labels, 0.2).item<double>(), (first + second) / 2 * two,
              1e-6);
}

// Its gradient is what the model says minus what it should say, which is not 0 or 1.
TEST(TrainingLoss, PullsTowardsSmoothedLabels) {
  const at::Tensor x = scores().clone().requires_grad_(true);
  training_loss(x, at::full({1}, 0, at::kLong), 0.4).backward();
  const at::Tensor expected = at::tensor({0.5F - 0.7F, 0.25F - 0.1F, 0.125F - 0.1F, 0.125F - 0.1F});
  EXPECT_TRUE(at::allclose(x.grad().view({4}), expected, 1e-5, 1e-6)) << x.grad();
}

TEST(EpochLoss, IsTheMeanOfItsSteps) {
  EpochLoss loss;
  EXPECT_EQ(loss.mean(), 0);
  loss.add(at::scalar_tensor(3.0, at::kDouble));
  const EpochLoss before = loss;
  loss.add(at::scalar_tensor(1.0, at::kDouble));
  EXPECT_EQ(loss.sum(), 4);
  EXPECT_EQ(loss.mean(), 2);
  EXPECT_EQ(before.mean(), 3);
  EXPECT_EQ(EpochLoss(4, 2).mean(), 2);
}

// Steps 5 and 6 are not finite. Whenever that is found out, it is said of step 5.
TEST(LossWatch, NamesTheFirstStepThatIsNotFinite) {
  const auto add = [](LossWatch& watch, int step) {
    const double loss = step == 5 ? std::nan("") : step == 6 ? HUGE_VAL : 1.0;
    watch.add(at::scalar_tensor(loss, at::kDouble), {.step = step, .rate = 0.5});
  };
  const auto said = [](const auto& act) -> std::string {
    try {
      act();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string expected =
      "the loss of rank 3 is nan in step 5: the run has diverged; a "
      "smaller learning rate than 0.5 may help, or --clip-norm";
  const std::unique_ptr<Lane> lane = open_lane(at::kCPU);
  for (const int lag : {0, 2}) {
    LossWatch watch(3, static_cast<std::size_t>(lag), *lane, {});
    for (int step = 0; step < 5 + lag; ++step) EXPECT_EQ(said([&] { add(watch, step); }), "");
    EXPECT_EQ(said([&] { add(watch, 5 + lag); }), expected) << "lag " << lag;
  }
  LossWatch ending(3, 2, *lane, {});
  for (int step = 4; step < 6; ++step) add(ending, step);
  EXPECT_EQ(said([&] { ending.flush(); }), expected);
}

// As of a device: the numbers are on the host later, and the step's loss is finite.
TEST(LossWatch, NamesTheStepWhoseGradientsAreNotFinite) {
  const std::unique_ptr<Lane> lane = test::late_lane();
  int waits = 0;
  LossWatch watch(1, LossWatch::kDeviceLag, *lane, [&](const std::function<bool()>& holds) {
    ++waits;
    while (!holds()) std::this_thread::yield();
  });
  const auto add = [&](int step) {
    watch.add(at::ones({}, at::kDouble), {.step = step, .rate = 0.5});
    watch.add_gradients(at::full({1}, step == 2 ? 1 : 0, at::kInt));
  };
  for (int step = 0; step < 4; ++step) add(step);
  EXPECT_GT(waits, 0);
  try {
    watch.flush();
    FAIL() << "a step that is not finite was taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "gradients of rank 1 are not finite in step 2: the run has diverged; a smaller "
                 "learning rate than 0.5 may help, or --clip-norm");
  }
}

}  // namespace
}  // namespace daso
