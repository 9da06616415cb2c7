// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/norm.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "optim/floats.h"

namespace daso {
namespace {

// The definition.
double plain_norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

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

// The order of additions is another one than here, so the last digits may differ.
TEST(Norm, BothInOnePassAreThoseOfPlainSums) {
  for (const InstructionSet set : supported_instruction_sets()) {
    std::mt19937 random(8);
    for (const std::size_t elements : {0U, 1U, 2U, 7U, 15U, 16U, 17U, 31U, 33U, 1003U, 65'537U}) {
      // A tensor begins anywhere in a flat one.
      const Floats first = random_floats(elements + 1, random);
      const Floats second = random_floats(elements, random);
      const std::span<const float> behind = std::span(first).subspan(1);
      const Norms norms = norms_of(behind, second, cpu_kernels(set));
      EXPECT_NEAR(norms.first, plain_norm(behind), 1e-12 * norms.first) << name_of(set) << elements;
      EXPECT_NEAR(norms.second, plain_norm(second), 1e-12 * norms.second)
          << name_of(set) << elements;
    }
  }
}

// Values whose sum depends on the order.
TEST(Norm, HasTheSameBitsOnEveryInstructionSetAloneAndWithAnother) {
  std::mt19937 random(9);
  for (const std::size_t elements : {0U, 1U, 15U, 16U, 17U, 1003U, 100'003U}) {
    const Floats first = random_floats(elements, random);
    const Floats second = random_floats(elements, random);
    const Norms expected = norms_of(first, second, cpu_kernels(InstructionSet::kScalar));
    for (const InstructionSet set : supported_instruction_sets()) {
      const Norms norms = norms_of(first, second, cpu_kernels(set));
      EXPECT_EQ(norms.first, expected.first) << name_of(set) << elements;
      EXPECT_EQ(norms.second, expected.second) << name_of(set) << elements;
      EXPECT_EQ(norm_of(first, cpu_kernels(set)), expected.first) << name_of(set) << elements;
      EXPECT_EQ(norm_of(second, cpu_kernels(set)), expected.second) << name_of(set) << elements;
    }
  }
}

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

// 64 squares of the same number: the sum is exact, and its root is 8 times that number.
TEST(Norm, NeitherOverflowsNorUnderflows) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  for (const InstructionSet set : supported_instruction_sets()) {
    const Norms norms = norms_of(Floats(64, kMost), Floats(64, -kLeast), cpu_kernels(set));
    EXPECT_EQ(norms.first, 8.0 * kMost) << name_of(set);
    EXPECT_EQ(norms.second, 8.0 * kLeast) << name_of(set);
  }
}

TEST(Norm, WhatIsNotFiniteStaysInItsOwnTensor) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const InstructionSet set : supported_instruction_sets()) {
    for (const std::size_t place : {0U, 16U}) {  // in a whole row, and in what is left
      Floats bad(17, 0);
      const Floats good(17, 0);
      bad[place] = kInfinity;
      EXPECT_EQ(norms_of(bad, good, cpu_kernels(set)).first, kInfinity);
      EXPECT_EQ(norms_of(bad, good, cpu_kernels(set)).second, 0);
      bad[place] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_EQ(norms_of(good, bad, cpu_kernels(set)).first, 0);
      EXPECT_TRUE(std::isnan(norms_of(good, bad, cpu_kernels(set)).second));
    }
  }
}

TEST(Norm, OfTensorsThatDoNotFitIsABug) {
  EXPECT_THROW(norms_of(Floats(4), Floats(3)), std::logic_error);
  EXPECT_THROW(norms_of(Floats(4), {}), std::logic_error);
}

}  // namespace
}  // namespace daso
