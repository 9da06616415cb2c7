// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "bag.h"
#include "daso/base/error.h"
#include "daso/kernels/norm.h"
#include "daso/optim/gradients.h"

namespace daso {
namespace {

// Gradients 3 and 4, else zeros.
FlatModel five() {
  FlatModel model(Bag(Shapes{{"a", {20}}, {"b", {3, 5}}}).module);
  model.gradients()[2] = 3;
  model.gradients()[20] = -4;
  return model;
}

TEST(Clip, ScalesToTheLargestNorm) {
  FlatModel model = five();
  EXPECT_EQ(clip_by_norm(model, 2.5).item<double>(), 5);
  EXPECT_NEAR(model.gradients()[2].item<double>(), 1.5, 1e-6);
  EXPECT_NEAR(model.gradients()[20].item<double>(), -2, 1e-6);
  EXPECT_LE(norm_of(std::span(model.gradients().const_data_ptr<float>(), 35)), 2.5);
}

TEST(Clip, LeavesSmallGradientsAlone) {
  for (const double largest : {5.1, 1000.0}) {
    FlatModel model = five();
    EXPECT_EQ(clip_by_norm(model, largest).item<double>(), 5);
    EXPECT_TRUE(at::equal(model.gradients(), five().gradients()));
  }
}

TEST(Clip, OfNothingIsNothing) {
  FlatModel model = five();
  model.zero_gradients();
  EXPECT_EQ(clip_by_norm(model, 1).item<double>(), 0);
  EXPECT_EQ(model.gradients().count_nonzero().item<int>(), 0);
}

TEST(Clip, TellsOfValuesThatAreNotFiniteAndKeepsThem) {
  FlatModel model = five();
  model.gradients()[7] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(clip_by_norm(model, 1).item<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(model.gradients()[2].item<float>(), 3);
  model.gradients()[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(clip_by_norm(model, 1).item<double>()));
  EXPECT_EQ(model.gradients()[2].item<float>(), 3);
}

TEST(Clip, RefusesNormsThatMakeNoSense) {
  FlatModel model = five();
  for (const double largest : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THROW(clip_by_norm(model, largest), ConfigError);
  }
}

}  // namespace
}  // namespace daso
