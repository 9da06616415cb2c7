// SPDX-License-Identifier: Apache-2.0
#include "daso/base/values.h"

#include <gtest/gtest.h>

#include "daso/base/error.h"

namespace daso {
namespace {

// The message with which a value is refused; empty if it is not.
template <typename Parse>
std::string refusal(const Parse& parse) {
  try {
    parse();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Values, CountsAreWholeNumbersFromTheLeastOn) {
  EXPECT_EQ(parse_count("--nodes", "3", 1), 3);
  EXPECT_EQ(parse_count("--warmup", "0", 0), 0);
  for (const char* text : {"", "0", "-1", "two", "2x", " 2", "99999999999"}) {
    EXPECT_EQ(refusal([&] { parse_count("--nodes", text, 1); }),
              fmt::format("--nodes takes a whole number of at least 1, got '{}'", text));
  }
}

TEST(Values, CountsMayHaveAMost) {
  EXPECT_EQ(parse_count("--threads", "1024", 1, 1024), 1024);
  for (const char* text : {"0", "1025", "x"}) {
    EXPECT_EQ(refusal([&] { parse_count("--threads", text, 1, 1024); }),
              fmt::format("--threads takes a whole number in 1 ... 1024, got '{}'", text));
  }
}

TEST(Values, ListsOfCountsHaveNoGaps) {
  EXPECT_EQ(parse_counts("--ranks-per-node", "3,1,2", 1), (std::vector<int>{3, 1, 2}));
  EXPECT_NE(refusal([] { parse_counts("--ranks-per-node", "3,,2", 1); }), "");
  EXPECT_NE(refusal([] { parse_counts("--ranks-per-node", "3,1,", 1); }), "");
  EXPECT_NE(refusal([] { parse_counts("--ranks-per-node", "", 1); }), "");
}

TEST(Values, SeedsAreWholeNumbersOf64Bits) {
  EXPECT_EQ(parse_seed("--seed", "0"), 0U);
  EXPECT_EQ(parse_seed("--seed", "18446744073709551615"), 18446744073709551615U);
  for (const char* text :
       {"", "-1", "18446744073709551616", "99999999999999999999", "abc", "1.5"}) {
    EXPECT_EQ(
        refusal([&] { parse_seed("--seed", text); }),
        fmt::format("--seed takes a whole number in 0 ... 18446744073709551615, got '{}'", text));
  }
}

TEST(Values, SecondsAreDecimalAndFinite) {
  EXPECT_EQ(parse_seconds("--timeout", "2.5", Seconds(0.001)), Seconds(2.5));
  EXPECT_EQ(parse_seconds("--grace", "0", Seconds(0)), Seconds(0));
  for (const char* text : {"", "0", "-1", "5s", "inf", "nan", "1e30"}) {
    EXPECT_NE(refusal([&] { parse_seconds("--timeout", text, Seconds(0.001)); }), "") << text;
  }
}

TEST(Values, WrongChoiceNamesTheNearest) {
  EXPECT_EQ(parse_choice("--backend", "mpi", {"gloo", "mpi"}), "mpi");
  EXPECT_EQ(refusal([] {
              parse_choice("--backend", "glo", {"gloo", "mpi"});
            }),
            "--backend takes gloo, mpi, got 'glo'; did you mean gloo?");
}

TEST(Values, ChoicesKeepTheirOrderAndDoNotRepeat) {
  EXPECT_EQ(parse_choices("--caller", "b,a", {"a", "b"}), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(refusal([] {
              parse_choices("--caller", "a,a", {"a", "b"});
            }),
            "--caller names a twice");
}

TEST(Values, SizesAreInPowersOf1024) {
  EXPECT_EQ(parse_sizes("--sizes", "17,1K,16M,2G"),
            (std::vector<std::int64_t>{17, 1024, 16 * 1048576, 2147483648}));
  EXPECT_NE(refusal([] { parse_sizes("--sizes", "1K,1X"); }).find("--sizes: '1X'"),
            std::string::npos);
}

}  // namespace
}  // namespace daso
