// SPDX-License-Identifier: Apache-2.0
#include "daso/tensor/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <random>

#include "daso/base/error.h"
#include "daso/base/seconds.h"
#include "daso/tensor/large_tensor.h"
#include "scratch_folder.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

std::string text_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_text(const fs::path& path, const std::string& text) {
  fs::remove(path);  // a file that is cut and written again may be flushed to disk each time
  std::ofstream(path, std::ios::binary) << text;
}

// A file of this header and these values.
std::string file_text(const std::string& header, const std::string& values) {
  const std::uint64_t length = header.size();
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + header + values;
}

// The same type, shape and bits; also for values that are not equal to themselves.
bool same(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor one = a.contiguous();
  const at::Tensor other = b.contiguous();
  const auto left = bytes(one);
  const auto right = bytes(other);
  return std::equal(left.begin(), left.end(), right.begin(), right.end());
}

State some_of_everything() {
  State tensors;
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kInt,
                          at::kShort, at::kChar, at::kByte, at::kBool}) {
    const std::string name = c10::toString(type);
    tensors[name] = at::arange(6).remainder(type == at::kBool ? 2 : 5).to(type).view({2, 3});
    tensors[name + ".one"] = at::ones({}, type);
    tensors[name + ".none"] = at::ones({2, 0, 3}, type);
  }
  tensors["transposed"] = at::arange(12, at::kFloat).view({3, 4}).t();
  tensors["every second"] = at::arange(12, at::kInt).slice(0, 1, 12, 2);
  tensors["spread"] = at::ones({1}).expand({3, 2});
  const float infinity = std::numeric_limits<float>::infinity();
  tensors["strange"] = at::tensor({infinity, -infinity, -0.0F, 1e-42F, std::nanf("7")});
  tensors["a \"name\"\n\\ ü"] = at::ones({1});
  return tensors;
}

class TensorFiles : public testing::Test {
 protected:
  // What reading this text as a file says, which must be a ConfigError that names the file.
  std::string refusal(const std::string& text) const {
    write_text(path_, text);
    try {
      read_tensors(path_);
    } catch (const ConfigError& error) {
      EXPECT_EQ(std::string(error.what()).rfind(path_.string() + ": ", 0), 0U) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "not refused: " << text;
    return "";
  }
  // The same of a header that describes eight bytes of values.
  std::string refusal_of_header(const std::string& header) const {
    return refusal(file_text(header, "12345678"));
  }
  void expect_refusal(const std::string& header, const std::string& reason) const {
    const std::string message = refusal_of_header(header);
    EXPECT_NE(message.find(reason), std::string::npos) << message;
  }

  const test::ScratchFolder scratch_;
  const fs::path path_ = scratch_.path() / "model.safetensors";
};

TEST_F(TensorFiles, GiveBackWhatWasWritten) {
  const State written = some_of_everything();
  const Metadata metadata = {{"format", "pt"}, {"note", "two\nlines, ü and \"quotes\""}};
  write_tensors(path_, written, metadata);
  const TensorFile read = read_tensors(path_);
  EXPECT_EQ(read.metadata, metadata);
  ASSERT_EQ(read.tensors.size(), written.size());
  for (const auto& [name, tensor] : written) {
    EXPECT_TRUE(same(read.tensors.at(name), tensor)) << name;
  }
}

TEST_F(TensorFiles, MayBeEmpty) {
  write_tensors(path_, {});
  EXPECT_EQ(text_in(path_), file_text("{}      ", ""));
  const TensorFile read = read_tensors(path_);
  EXPECT_TRUE(read.tensors.empty());
  EXPECT_TRUE(read.metadata.empty());
}

// As the format is described: the larger type comes first, and spaces fill up to a multiple of 8.
TEST_F(TensorFiles, HaveTheBytesOfTheFormat) {
  write_tensors(path_,
                {{"b", at::tensor({1, 2}, at::kLong)}, {"a", at::tensor({3, 4}, at::kByte)}});
  const std::string header = R"({"a":{"data_offsets":[16,18],"dtype":"U8","shape":[2]},)"
                             R"("b":{"data_offsets":[0,16],"dtype":"I64","shape":[2]}})";
  std::string values = "\1.......\2.......\3\4";
  std::replace(values.begin(), values.end(), '.', '\0');
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(text_in(path_), file_text(padded, values));
}

TEST_F(TensorFiles, OfOthersAreReadInAnyOrderWithAnySpacing) {
  const std::string header = R"(  {"x" : {"shape":[2], "dtype":"I16", "data_offsets":[4,8]},
    "__metadata__":{}, "none":{"dtype":"F64","shape":[0],"data_offsets":[4,4]},
    "w":{"dtype":"F32","data_offsets":[0,4],"shape":[]}}  )";
  write_text(path_, file_text(header, std::string("\0\0\x80\x3f\1\0\2\0", 8)));
  const State tensors = read_tensors(path_).tensors;
  EXPECT_EQ(tensors.size(), 3U);
  EXPECT_TRUE(same(tensors.at("w"), at::scalar_tensor(1.0F)));
  EXPECT_TRUE(same(tensors.at("x"), at::tensor({1, 2}, at::kShort)));
  EXPECT_EQ(tensors.at("none").numel(), 0);
}

TEST_F(TensorFiles, RefuseToHoldWhatTheFormatCannot) {
  write_tensors(path_, {{"previous", at::ones({1})}});
  for (const auto& [name, tensor] : State{{"a", at::Tensor()},
                                          {"b", at::ones({2}, at::kComplexFloat)},
                                          {"c", at::eye(3).to_sparse()},
                                          {"__metadata__", at::ones({1})},
                                          {"\xff", at::ones({1})}}) {
    EXPECT_THROW(write_tensors(path_, {{name, tensor}}), ConfigError) << name;
  }
  EXPECT_TRUE(read_tensors(path_).tensors.contains("previous"));
}

TEST_F(TensorFiles, ThatAreNoneAreRefused) {
  EXPECT_THROW(read_tensors(scratch_.path() / "missing"), ConfigError);
  EXPECT_THROW(read_tensors(scratch_.path()), ConfigError);
  refusal("");
  refusal("1234567");
  refusal(std::string(8, '\xff'));              // a header of 2^64 - 1 bytes
  refusal(std::string("\0\0\0\0\1\0\0\0", 8));  // of 4 GB
  refusal(file_text("", ""));
  for (const char* header :
       {"[]", "1", "null", "\"x\"", "{", "{}}", "{\"x\":}", "{\"\xff\":1}", "nonsense", "{} {}"}) {
    refusal(file_text(header, ""));
  }
}

TEST_F(TensorFiles, WithWrongDescriptionsAreRefused) {
  expect_refusal(R"({"x":{"dtype":"F32","shape":[2]}})", "not described by");
  expect_refusal(R"({"x":[1,2]})", "not described by");
  expect_refusal(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})",
                 "not described by");
  expect_refusal(R"({"x":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", "known are F32");
  expect_refusal(R"({"x":{"dtype":7,"shape":[8],"data_offsets":[0,8]}})", "known are F32");
  expect_refusal(R"({"x":{"dtype":"U8","shape":8,"data_offsets":[0,8]}})", "has the shape");
  for (const char* size : {"-8", "8.0", "\"8\"", "null", "[8]", "18446744073709551608", "1e999"}) {
    const std::string shape = R"({"x":{"dtype":"U8","shape":[)" + std::string(size);
    refusal_of_header(shape + R"(],"data_offsets":[0,8]}})");
    refusal_of_header(R"({"x":{"dtype":"U8","shape":[8],"data_offsets":[0,)" + std::string(size) +
                      "]}}");
  }
  expect_refusal(R"({"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8,8]}})", "data_offsets");
  expect_refusal(R"({"__metadata__":{"a":1},"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                 "no text");
  expect_refusal(R"({"__metadata__":[],"x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})",
                 "no object");
}

TEST_F(TensorFiles, WithSizesThatOverflowAreRefused) {
  expect_refusal(R"({"x":{"dtype":"F32","shape":[4611686018427387906],"data_offsets":[0,8]}})",
                 "too large");  // 4 times that is 8, modulo 2^64
  expect_refusal(R"({"x":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
                 "too large");
  expect_refusal(R"({"x":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})",
                 "too large");
  std::string ones = "1";
  for (int i = 0; i < 10000; ++i) ones += ",1";
  expect_refusal(R"({"x":{"dtype":"I64","shape":[)" + ones + R"(],"data_offsets":[0,8]}})",
                 "has the shape");
}

TEST_F(TensorFiles, WithValuesThatDoNotLieOneBehindTheOtherAreRefused) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"x":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"y":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  write_text(path_, file_text(two("[4,8]", "[0,4]"), "12345678"));
  EXPECT_NO_THROW(read_tensors(path_));
  expect_refusal(two("[0,4]", "[0,4]"), "overlap");
  expect_refusal(two("[0,4]", "[3,7]"), "overlap");
  expect_refusal(two("[0,4]", "[5,9]"), "gap");
  expect_refusal(two("[1,5]", "[5,9]"), "gap");
  expect_refusal(two("[4,0]", "[4,8]"), "lies at [4,0]");
  expect_refusal(two("[0,4]", "[4,9]"), "lies at [4,9]");
  expect_refusal(R"({"x":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", "is truncated");
  expect_refusal(R"({"x":{"dtype":"U8","shape":[7],"data_offsets":[0,7]}})", "is too long");
}

TEST_F(TensorFiles, ThatReadersWouldTakeDifferentlyAreRefused) {
  const std::string x = R"("x":{"dtype":"U8","shape":[8],"data_offsets":[0,8]})";
  expect_refusal("{" + x + "," + x + "}", "\"x\" twice");
  expect_refusal(R"({"x":{"dtype":"U8","dtype":"I8","shape":[8],"data_offsets":[0,8]}})",
                 "\"dtype\" twice");
  expect_refusal(R"({"x":{"dtype":"BOOL","shape":[8],"data_offsets":[0,8]}})",
                 "other than 0 and 1");
}

TEST_F(TensorFiles, ThatAreNestedWithoutEndAreRefused) {
  expect_refusal(std::string(1000000, '['), "deeper");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += R"({"x":)";
  expect_refusal(objects, "deeper");
}

// Ten times as many take about ten times as long, not a hundred times. The best of three each, as
// the machine may have something else to do.
TEST_F(TensorFiles, OfManyTensorsAreReadInLinearTime) {
  const auto seconds = [&](int tensors) {
    std::string header = "{";
    for (int i = 0; i < tensors; ++i) {
      header += fmt::format(R"({}"t{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                            i == 0 ? "" : ",", i);
    }
    write_text(path_, file_text(header + "}", ""));
    double best = std::numeric_limits<double>::infinity();
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto begin = Clock::now();
      EXPECT_EQ(std::ssize(read_tensors(path_).tensors), tensors);
      best = std::min(best, since(begin).count());
    }
    return best;
  };
  const double few = seconds(4'000);
  EXPECT_LT(seconds(40'000), 40 * few);
}

TEST_F(TensorFiles, CannotSpeakToTheTerminalByTheirNames) {
  const std::string message = refusal_of_header("{\"\\u001b[2J\":1}");
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_NE(message.find("\\u001b[2J"), std::string::npos) << message;
}

// A small file with several of everything, to be damaged.
std::string whole_file(const fs::path& path) {
  write_tensors(path,
                {{"weight", at::arange(6, at::kFloat).view({2, 3})},
                 {"bias", at::arange(3, at::kDouble)},
                 {"flags", at::ones({5}, at::kBool)},
                 {"steps", at::scalar_tensor(7, at::kLong)},
                 {"none", at::empty({0, 4})}},
                {{"strategy", "daso"}, {"step", "400"}});
  return text_in(path);
}

TEST_F(TensorFiles, CutAnywhereAreRefused) {
  const std::string whole = whole_file(path_);
  ASSERT_GT(whole.size(), 200U);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) refusal(whole.substr(0, bytes));
  refusal(whole + '\0');
}

// Damaged at random: refused by name, or read as a file that fits its bytes; never anything else.
TEST_F(TensorFiles, DamagedAnywhereAreRefusedOrStillFit) {
  const std::string whole = whole_file(path_);
  std::uint64_t header = 0;
  std::memcpy(&header, whole.data(), sizeof header);
  const std::size_t values = sizeof header + header;
  std::mt19937 random(20);
  int refused = 0;
  constexpr int kVariants = 6000;
  for (int variant = 0; variant < kVariants; ++variant) {
    std::string text = whole;
    const auto any = [&](std::size_t below) { return random() % below; };
    for (std::size_t changes = 1 + any(3); changes > 0; --changes) {
      const std::size_t at = any(values);
      if (variant % 4 == 0) text[at] = static_cast<char>(text[at] ^ (1 << any(8)));
      if (variant % 4 == 1) text[at] = "0123456789[]{},:\"-. "[any(20)];
      if (variant % 4 == 2) text.insert(at, text.substr(any(values), any(20)));
      if (variant % 4 == 3) text.erase(at, 1 + any(20));
    }
    if (variant % 8 > 1 && any(2) == 0) {  // with the length that fits
      const std::uint64_t fits = header + text.size() - whole.size();
      std::memcpy(text.data(), &fits, sizeof fits);
    }
    write_text(path_, text);
    try {
      std::size_t total = 0;
      for (const auto& [name, tensor] : read_tensors(path_).tensors) total += tensor.nbytes();
      std::uint64_t length = 0;
      std::memcpy(&length, text.data(), sizeof length);
      EXPECT_EQ(total + sizeof length + length, text.size());
    } catch (const ConfigError& error) {
      EXPECT_EQ(std::string(error.what()).rfind(path_.string() + ": ", 0), 0U) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, kVariants / 2);
  EXPECT_LT(refused, kVariants);
}

}  // namespace
}  // namespace daso
