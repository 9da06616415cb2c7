// SPDX-License-Identifier: Apache-2.0
#include "daso/kernels/mean.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "numbers.h"

namespace daso {
namespace {

using test::bits_of;
using test::Floats;

TEST(WeightedMean, AddsInOrderAndClearsTheResidual) {
  std::mt19937 random(3);
  for (const InstructionSet set : supported_instruction_sets()) {
    for (const std::size_t elements : {0U, 1U, 255U, 256U, 257U, 1000U}) {
      const Floats a = test::hard_numbers(elements, 0x1p100F, random);
      const Floats b = test::hard_numbers(elements, 0x1p100F, random);
      const Floats c = test::hard_numbers(elements, 0x1p100F, random);
      const Floats before = test::hard_numbers(elements, 0x1p100F, random);
      Floats expected(elements);
      Floats without_residual(elements);
      for (std::size_t i = 0; i < elements; ++i) {
        without_residual[i] = (0.3F * a[i] + 0.5F * b[i]) + 0.2F * c[i];
        expected[i] = without_residual[i] + before[i];
      }
      const std::vector<Part> parts = {{a, 0.3F}, {b, 0.5F}, {c, 0.2F}};
      Floats residual = before;
      Floats mean(elements);
      ASSERT_TRUE(weighted_mean(parts, residual, mean, cpu_kernels(set)));
      EXPECT_EQ(bits_of(mean), bits_of(expected));
      EXPECT_EQ(bits_of(residual), bits_of(Floats(elements)));
      ASSERT_TRUE(weighted_mean(parts, {}, mean, cpu_kernels(set)));
      EXPECT_EQ(bits_of(mean), bits_of(without_residual));
    }
  }
}

TEST(WeightedMean, WhatIsNotFiniteIsRefused) {
  for (const InstructionSet set : supported_instruction_sets()) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
      for (const std::size_t place : {0U, 511U, 512U, 599U}) {
        const Floats good(600, 1);
        Floats values = good;
        values.at(place) = bad;
        const std::vector<Part> parts = {{good, 0.5F}, {values, 0.5F}};
        Floats mean(600);
        EXPECT_FALSE(weighted_mean(parts, {}, mean, cpu_kernels(set))) << place;
      }
    }
  }
}

// As the owner of a segment does it, whose own part lies where the mean goes.
TEST(PlainMean, AddsInOrderAndDividesAlsoInPlace) {
  std::mt19937 random(5);
  for (const InstructionSet set : supported_instruction_sets()) {
    for (const std::size_t elements : {0U, 1U, 255U, 256U, 257U, 1000U}) {
      std::vector<Floats> given;
      for (int rank = 0; rank < 3; ++rank) {
        given.push_back(test::hard_numbers(elements, 0x1p100F, random));
      }
      Floats expected(elements);
      for (std::size_t i = 0; i < elements; ++i) {
        expected[i] = ((given[0][i] + given[1][i]) + given[2][i]) / 3;
      }
      const std::vector<const float*> values = {given[0].data(), given[1].data(), given[2].data()};
      plain_mean(values, given[1], cpu_kernels(set));
      EXPECT_EQ(bits_of(given[1]), bits_of(expected)) << name_of(set) << " " << elements;
    }
  }
}

TEST(WeightedMean, WhatDoesNotFitIsABug) {
  const Floats four(4, 1);
  Floats mean(4);
  Floats less(3);
  EXPECT_THROW(weighted_mean({}, {}, mean), std::logic_error);
  EXPECT_THROW(weighted_mean(std::vector<Part>{{four, 1}}, less, mean), std::logic_error);
  EXPECT_THROW(weighted_mean(std::vector<Part>{{four, 1}}, {}, less), std::logic_error);
  EXPECT_THROW(plain_mean({}, mean), std::logic_error);
}

}  // namespace
}  // namespace daso
