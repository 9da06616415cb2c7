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

}  // namespace
}  // namespace daso::test
