// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "bag.h"
#include "daso/base/error.h"
#include "daso/optim/gradients.h"

namespace daso {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class LossScalers : public testing::Test {
 protected:
  bool step(float gradient) {
    model_.gradients().fill_(gradient);
    return scaler_.unscale(model_);
  }
  float gradient() const { return model_.gradients()[0].item<float>(); }

  FlatModel model_{Bag(Shapes{{"weight", {3, 5}}}).module};
  LossScaler scaler_;
};

TEST_F(LossScalers, DivideByTheScale) {
  EXPECT_EQ(scaler_.scale(), 65536);
  EXPECT_TRUE(step(3 * 65536.0F));
  EXPECT_EQ(gradient(), 3);
  EXPECT_EQ(scaler_.scale(), 65536);
}

TEST_F(LossScalers, SkipAndHalveWhereAGradientIsNotFinite) {
  EXPECT_FALSE(step(kInfinity));
  EXPECT_EQ(scaler_.scale(), 32768);
  EXPECT_FALSE(step(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(scaler_.scale(), 16384);
  EXPECT_TRUE(step(16384));
  EXPECT_EQ(gradient(), 1);
}

TEST_F(LossScalers, DoubleAfterManyGoodSteps) {
  for (int i = 0; i < 1999; ++i) ASSERT_TRUE(step(1));
  EXPECT_EQ(scaler_.scale(), 65536);
  EXPECT_TRUE(step(65536));
  EXPECT_EQ(gradient(), 1);  // by the scale that the loss had
  EXPECT_EQ(scaler_.scale(), 131072);
  for (int i = 0; i < 1999; ++i) ASSERT_TRUE(step(1));
  EXPECT_FALSE(step(kInfinity));  // the count begins again
  for (int i = 0; i < 1999; ++i) ASSERT_TRUE(step(1));
  EXPECT_EQ(scaler_.scale(), 65536);
}

// Two that skipped at different steps double at the same one once they have agreed.
TEST_F(LossScalers, GoOnAlikeOnceTheyAgree) {
  ASSERT_FALSE(step(kInfinity));
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(step(1));
  LossScaler other;
  model_.gradients().fill_(kInfinity);
  ASSERT_FALSE(other.unscale(model_));
  ASSERT_FALSE(other.unscale(model_));
  scaler_.agree_on(other.scale(), other.good_steps());
  EXPECT_EQ(scaler_.scale(), 16384);
  other.agree_on(scaler_.scale(), scaler_.good_steps());
  for (int i = 0; i < 2000; ++i) {
    ASSERT_EQ(scaler_.scale(), other.scale()) << i;
    ASSERT_TRUE(step(1));
    ASSERT_TRUE(other.unscale(model_));
  }
  EXPECT_EQ(scaler_.scale(), 32768);
  EXPECT_EQ(other.scale(), 32768);
}

TEST_F(LossScalers, GiveUpWhereTheScaleIsNotTheReason) {
  for (int i = 0; i < 26; ++i) ASSERT_FALSE(step(kInfinity)) << i;
  EXPECT_EQ(scaler_.scale(), LossScaler::kLeast);
  EXPECT_THROW(step(kInfinity), Error);
}

TEST_F(LossScalers, GoOnFromTheirState) {
  ASSERT_FALSE(step(kInfinity));
  for (int i = 0; i < 1999; ++i) ASSERT_TRUE(step(1));
  LossScaler other;
  other.load_state(scaler_.state());
  EXPECT_EQ(other.scale(), 32768);
  model_.gradients().fill_(1);
  EXPECT_TRUE(other.unscale(model_));
  EXPECT_EQ(other.scale(), 65536);
}

}  // namespace
}  // namespace daso
