// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "daso/data/dataset.h"

namespace daso {

struct TextOptions {
  std::filesystem::path file;
  std::string tokens = "bytes";  // or characters
  std::int64_t length = 64;      // tokens of an input
  double test = 0.1;             // share of the tokens that are the test part
};

// "FILE,tokens=characters,length=32"; what is not named keeps its default. Throws ConfigError.
TextOptions parse_text(const std::string& text);

// One file as a sequence of tokens, its end being the test part. Examples are windows side by side;
// window i reads tokens i * length ... i * length + length, the last of which is a label only.
// Throws ConfigError naming the file.
Datasets open_text(const TextOptions& options);

// The characters of a UTF-8 text. Throws ConfigError with the first byte of what Unicode does not
// allow (base/utf8.h). `name` is the file's.
std::vector<char32_t> decode_utf8(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace daso
