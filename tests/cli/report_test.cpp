// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <stdexcept>

#include "bench/statistics.h"
#include "cli/machine.h"
#include "cli/table.h"

namespace daso::cli {
namespace {

using namespace bench;

TEST(Table, CellsStandUnderTheirTitles) {
  const Table table({{"name", 6, /*left=*/true}, {"bytes", 3}});
  EXPECT_EQ(table.header(), "name    bytes");
  EXPECT_EQ(table.row({"a", "1K"}), "a          1K");
  EXPECT_THROW(table.row({"a"}), std::logic_error);
}

TEST(Table, SectionsAlignTheirValues) {
  EXPECT_EQ(section("CPU", {{"model", "x"}, {"id", "y"}}), "CPU\n  model  x\n  id     y\n");
}

TEST(Table, SecondsGetTheUnitThatSuitsThem) {
  EXPECT_EQ(format_seconds(12.34e-6), "12.3 us");
  EXPECT_EQ(format_seconds(4.567e-3), "4.57 ms");
  EXPECT_EQ(format_seconds(7.891), "7.89 s");
}

TEST(Table, GigabytesAreThoseOfTheDecimalSystem) { EXPECT_EQ(format_gigabytes(1.5e9), "1.500"); }

TEST(Statistics, MedianIsTheOneInTheMiddle) {
  EXPECT_EQ(median({5, 1, 3}), 3);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
  EXPECT_THROW(median({}), std::logic_error);
}

// From a table of Student's distribution.
TEST(Statistics, QuantilesOfStudentsTAreThoseOfTheTables) {
  const std::vector<std::pair<int, double>> of_975 = {
      {1, 12.7062}, {2, 4.3027},  {3, 3.1824},  {4, 2.7764},   {5, 2.5706},
      {9, 2.2622},  {10, 2.2281}, {30, 2.0423}, {100, 1.9840}, {1000, 1.9623}};
  for (const auto& [degrees, quantile] : of_975) {
    EXPECT_NEAR(student_t(0.975, degrees), quantile, 1e-4) << degrees;
  }
  EXPECT_NEAR(student_t(0.95, 4), 2.1318, 1e-4);
  EXPECT_NEAR(student_t(0.995, 7), 3.4995, 1e-4);
  EXPECT_NEAR(student_t(0.5, 3), 0, 1e-12);
}

TEST(Machine, MissingPackagesComeWithTheirPurpose) {
  const auto packages =
      parse_missing_packages("libopenmpi-dev backend mpi\n\nccache quick rebuilds\n");
  ASSERT_EQ(packages.size(), 2U);
  EXPECT_EQ(packages[0].name, "libopenmpi-dev");
  EXPECT_EQ(packages[0].purpose, "backend mpi");
  EXPECT_EQ(packages[1].name, "ccache");
  EXPECT_EQ(packages[1].purpose, "quick rebuilds");
}

}  // namespace
}  // namespace daso::cli
