// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "daso/base/utf8.h"

// The rules of every single character are tested with texts as data (tests/data/utf8_test.cpp).
namespace daso::test {
namespace {

TEST(Utf8, IsToldFromOtherBytes) {
  for (const char* text : {"", "runs/mine", "f\xc3\xbcnf", "\xf0\x9f\x98\x80", "a\nb"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (const char* text : {"\xff", "a\xe9", "\xc3", "\xc0\xaf", "\xed\xa0\x80"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

TEST(Utf8, ShowsTheBytesThatAreNone) {
  EXPECT_EQ(printable("f\xc3\xbcnf"), "f\xc3\xbcnf");
  EXPECT_EQ(printable("a\xff-\xc3"), "a\\xff-\\xc3");
  EXPECT_EQ(printable("\x1b[2J\n"), "\\x1b[2J\\x0a");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // the same to a terminal as \x1b[
}

// From the first to the last of each length.
TEST(Utf8, WritesWhatItReads) {
  for (const int number : {0x0, 0x7f, 0x80, 0xfc, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff}) {
    const auto point = static_cast<char32_t>(number);
    const std::string text = utf8_of(point);
    const auto* const first = reinterpret_cast<const std::uint8_t*>(text.data());
    const auto read = first_character({first, text.size()});
    ASSERT_TRUE(read) << number;
    EXPECT_EQ(read->point, point);
    EXPECT_EQ(read->bytes, text.size());
  }
  EXPECT_EQ(utf8_of(0x1f600), "\xf0\x9f\x98\x80");
}

}  // namespace
}  // namespace daso::test
