// SPDX-License-Identifier: Apache-2.0
#include "daso/base/utf8.h"

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <vector>

#include "daso/base/random.h"
#include "daso/data/text_file.h"
#include "data/data_files.h"

namespace daso {
namespace {

using test::Bytes;
using test::refusal;

// The definition, read backwards: Unicode 15, table 3-6.
void append(Bytes& bytes, char32_t point) {
  const auto put = [&](char32_t value) { bytes.push_back(static_cast<std::uint8_t>(value)); };
  const auto tail = [&](int shift) { put(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) return put(point);
  if (point < 0x800) {
    put(0xc0 | point >> 6);
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    tail(6);
  } else {
    put(0xf0 | point >> 18);
    tail(12);
    tail(6);
  }
  tail(0);
}

TEST(Utf8, GivesBackEveryCodePoint) {
  Bytes bytes;
  std::vector<char32_t> points;
  for (char32_t point = 0; point <= kLastCodePoint; ++point) {
    if (point >= 0xd800 && point <= 0xdfff) continue;  // surrogates are no characters
    append(bytes, point);
    points.push_back(point);
  }
  EXPECT_TRUE(decode_utf8(bytes, "x") == points);
  EXPECT_TRUE(decode_utf8({}, "x").empty());
}

TEST(Utf8, RefusesWhatUnicodeDoesNotAllow) {
  const std::vector<Bytes> broken = {
      {0x80},                    // a byte that continues nothing
      {0xc3},                    // cut off
      {0xe2, 0x82},              //
      {0xf0, 0x9f, 0x98},        //
      {0xc3, 0x41},              // continued by something else
      {0xe2, 0x82, 0xc3},        //
      {0xc0, 0x80},              // longer than need be
      {0xc1, 0xbf},              //
      {0xe0, 0x9f, 0xbf},        //
      {0xf0, 0x8f, 0xbf, 0xbf},  //
      {0xed, 0xa0, 0x80},        // surrogates
      {0xed, 0xbf, 0xbf},        //
      {0xf4, 0x90, 0x80, 0x80},  // above the last code point
      {0xf8, 0x88, 0x80, 0x80, 0x80},
      {0xff},
  };
  for (const Bytes& one : broken) {
    Bytes bytes = {'a', 0xc3, 0xa4};  // good ones before it
    for (const std::uint8_t byte : one) bytes.push_back(byte);
    const std::string message = refusal([&] { decode_utf8(bytes, "file.txt"); });
    EXPECT_NE(message.find("file.txt: byte 3 (0x"), std::string::npos) << message;
  }
}

// Random bytes are refused, or are what their characters are encoded as.
TEST(Utf8, IsRefusedOrSound) {
  RandomStream random{13};
  int sound = 0;
  for (int variant = 0; variant < 20000; ++variant) {
    Bytes bytes;
    for (std::uint64_t left = 1 + random.below(3); left > 0; --left) {
      // Bytes of longer forms more often than chance would have them.
      const std::uint64_t base = random.below(2) == 0 ? 0 : 0x80;
      bytes.push_back(static_cast<std::uint8_t>(base + random.below(0x80)));
    }
    std::vector<char32_t> points;
    try {
      points = decode_utf8(bytes, "x");
    } catch (const std::exception&) {
      continue;
    }
    Bytes again;
    for (const char32_t point : points) append(again, point);
    EXPECT_EQ(again, bytes);
    ++sound;
  }
  EXPECT_TRUE(sound > 1000 && sound < 15000) << sound;
}

}  // namespace
}  // namespace daso
