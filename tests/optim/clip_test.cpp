// SPDX-License-Identifier: Apache-2.0
#include "daso/optim/clip.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "bag.h"
#include "daso/base/error.h"
#include "daso/optim/norm.h"

namespace daso {
namespace {

using Floats = std::vector<float>;

TEST(Norm, OfKnownValues) {
  EXPECT_EQ(norm_of({}), 0);
  EXPECT_EQ(norm_of(Floats{3, 4}), 5);
  EXPECT_EQ(norm_of(Floats(1 << 16, -0.5F)), 128);
  // Every place counts, whatever the number of elements is.
  for (std::size_t elements = 1; elements < 70; ++elements) {
    for (std::size_t place = 0; place < elements; ++place) {
      Floats values(elements, 0);
      values[place] = -2.5F;
      ASSERT_EQ(norm_of(values), 2.5) << elements << " " << place;
    }
  }
}

TEST(Norm, NeitherOverflowsNorUnderflows) {
  EXPECT_DOUBLE_EQ(norm_of(Floats(4, 1e38F)), 2.0 * 1e38F);
  EXPECT_DOUBLE_EQ(norm_of(Floats(4, 1e-40F)), 2.0 * 1e-40F);
}

// Values whose sum depends on the order: the order is fixed, and so is the result.
TEST(Norm, HasTheSameBitsWithAnyNumberOfThreads) {
  Floats values(100'003);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  }
  const int threads = at::get_num_threads();
  const double norm = norm_of(values);
  EXPECT_NEAR(norm, std::sqrt(100'003 / 2.0), 0.01);
  at::set_num_threads(2);
  EXPECT_EQ(norm_of(values), norm);
  at::set_num_threads(threads);
}

// Gradients 3 and 4, else zeros.
FlatModel five() {
  FlatModel model(Bag(Shapes{{"a", {20}}, {"b", {3, 5}}}).module);
  model.gradients()[2] = 3;
  model.gradients()[20] = -4;
  return model;
}

TEST(Clip, ScalesToTheLargestNorm) {
  FlatModel model = five();
  EXPECT_EQ(clip_by_norm(model, 2.5), 5);
  EXPECT_NEAR(model.gradients()[2].item<double>(), 1.5, 1e-6);
  EXPECT_NEAR(model.gradients()[20].item<double>(), -2, 1e-6);
  EXPECT_LE(norm_of(std::span(model.gradients().const_data_ptr<float>(), 35)), 2.5);
}

TEST(Clip, LeavesSmallGradientsAlone) {
  for (const double largest : {5.1, 1000.0}) {
    FlatModel model = five();
    EXPECT_EQ(clip_by_norm(model, largest), 5);
    EXPECT_TRUE(at::equal(model.gradients(), five().gradients()));
  }
}

TEST(Clip, OfNothingIsNothing) {
  FlatModel model = five();
  model.zero_gradients();
  EXPECT_EQ(clip_by_norm(model, 1), 0);
  EXPECT_EQ(model.gradients().count_nonzero().item<int>(), 0);
}

TEST(Clip, TellsOfValuesThatAreNotFiniteAndKeepsThem) {
  FlatModel model = five();
  model.gradients()[7] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(clip_by_norm(model, 1), std::numeric_limits<double>::infinity());
  EXPECT_EQ(model.gradients()[2].item<float>(), 3);
  model.gradients()[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(clip_by_norm(model, 1)));
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
