// SPDX-License-Identifier: Apache-2.0
#include "daso/base/checked_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "refusal.h"

namespace daso::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// What is said of one field where a count belongs.
std::string as_count(const std::string& text) {
  const json document = parse_json(R"({"epoch": )" + text + "}", "m.json");
  return refusal([&] { CheckedJson(document, "m.json").at("epoch").count(0); });
}

// The JSON library by itself makes 1, 1, 2 and -1 of these.
TEST(CheckedJson, TakesNoNumberOfAnotherKindForACount) {
  EXPECT_EQ(as_count("2"), "not refused");
  EXPECT_EQ(as_count("1.5"), "m.json: epoch: takes a whole number of at least 0, got 1.5");
  EXPECT_EQ(as_count("true"), "m.json: epoch: takes a whole number of at least 0, got true");
  EXPECT_EQ(as_count("4294967298"), "m.json: epoch: 4294967298 is too large");
  EXPECT_EQ(as_count("18446744073709551615"),
            "m.json: epoch: takes a whole number of at least 0, got 18446744073709551615");
  EXPECT_THAT(as_count("\"1\""), HasSubstr("got \"1\""));
  EXPECT_THAT(as_count("null"), HasSubstr("got null"));
}

TEST(CheckedJson, NamesAFieldThatIsNotThere) {
  const json document = json::parse(R"({"a": {}})");
  const CheckedJson found(document, "m.json");
  EXPECT_EQ(refusal([&] { found.at("b"); }), "m.json: lacks the field 'b'");
  EXPECT_EQ(refusal([&] { found.at("a").at("b"); }), "m.json: a: lacks the field 'b'");
}

TEST(CheckedJson, SpeaksOfWhatIsNoJsonInItsOwnWords) {
  EXPECT_EQ(refusal([] { parse_json("[1,", "m.json"); }), "m.json: is no JSON from byte 4 on");
  EXPECT_THAT(refusal([] { parse_json("\"\xff\"", "m.json"); }), HasSubstr("is no JSON from byte"));
  EXPECT_THAT(refusal([] { parse_json("[1] 2", "m.json"); }), HasSubstr("is no JSON from byte"));
  EXPECT_EQ(refusal([] { parse_json("[1e999]", "m.json"); }),
            "m.json: is no JSON: the number that ends at byte 6 is larger than any double");
  EXPECT_FALSE(json_in("[1,"));
  EXPECT_EQ(json_in("[1]"), json::parse("[1]"));
}

TEST(CheckedJson, RefusesAFieldThatIsThereTwice) {
  EXPECT_EQ(refusal([] { parse_json(R"({"a": 1, "b": {"a": 2}, "a": 3})", "m.json"); }),
            "m.json: has the field \"a\" twice");
}

// Copying and writing such a value takes stack for each level; a million are more than there is.
TEST(CheckedJson, RefusesWhatIsNestedWithoutEnd) {
  for (const std::string_view open : {"[", R"({"a":)"}) {
    std::string text;
    for (int i = 0; i < 1'000'000; ++i) text += open;
    EXPECT_THAT(refusal([&] { parse_json(text, "m.json"); }), HasSubstr("nested deeper than"));
    EXPECT_FALSE(json_in(text));
  }
}

TEST(CheckedJson, ShowsNothingThatATerminalWouldObey) {
  EXPECT_EQ(shown(json("\x1b[2J")), R"("\u001b[2J")");
  EXPECT_EQ(shown(json(std::string(100, 'a'))), "\"" + std::string(59, 'a') + "...");
}

}  // namespace
}  // namespace daso::test
