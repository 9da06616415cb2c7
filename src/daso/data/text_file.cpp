// SPDX-License-Identifier: Apache-2.0
#include "daso/data/text_file.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/utf8.h"
#include "daso/data/files.h"
#include "daso/data/key_values.h"

namespace daso {
std::vector<char32_t> decode_utf8(std::span<const std::uint8_t> bytes, const std::string& name) {
  std::vector<char32_t> characters;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::optional<Utf8Character> character = first_character(bytes.subspan(at));
    require(character.has_value(),
            "{}: byte {} (0x{:02x}) begins no UTF-8 character; tokens=bytes takes any file", name,
            at, bytes[at]);
    characters.push_back(character->point);
    at += character->bytes;
  }
  return characters;
}

namespace {

constexpr int kBytes = 256;
constexpr std::int64_t kLongest = std::int64_t{1} << 20;

// A whole file; both parts share it.
template <typename Token>
struct Tokens {
  std::vector<Token> values;
  std::vector<std::int64_t> vocabulary;
  int classes = 0;
};

// Tokens `first` ... `first + count - 1` of a file.
template <typename Token>
class TextPart final : public TextDataset {
 public:
  TextPart(std::shared_ptr<const Tokens<Token>> tokens, std::int64_t first, std::int64_t count,
           std::int64_t length)
      : tokens_(std::move(tokens)), first_(first), size_((count - 1) / length), length_(length) {}

  std::int64_t size() const override { return size_; }
  InputShape shape() const override {
    return {
        .kind = InputKind::kText, .channels = 1, .height = 1, .width = static_cast<int>(length_)};
  }
  int classes() const override { return tokens_->classes; }
  std::vector<std::int64_t> vocabulary() const override { return tokens_->vocabulary; }

  void read(std::int64_t index, std::span<std::int64_t> tokens) const override {
    DASO_ASSERT(index >= 0 && index < size_);
    DASO_ASSERT(std::cmp_equal(tokens.size(), length_ + 1));
    const auto from = tokens_->values.begin() + (first_ + index * length_);
    std::copy(from, from + length_ + 1, tokens.begin());
  }

 private:
  std::shared_ptr<const Tokens<Token>> tokens_;
  std::int64_t first_;
  std::int64_t size_;
  std::int64_t length_;
};

template <typename Token>
Datasets parts_of(Tokens<Token> tokens, const TextOptions& options) {
  const auto all = static_cast<std::int64_t>(tokens.values.size());
  const std::int64_t test = std::llround(options.test * static_cast<double>(all));
  const auto shared = std::make_shared<const Tokens<Token>>(std::move(tokens));
  const auto part = [&](const char* name, std::int64_t first, std::int64_t count) {
    require(count > options.length,
            "{}: the {} part has {} of {} {}, and one example needs {}; take a longer file, a "
            "smaller length or another share for test",
            options.file.string(), name, count, all, options.tokens, options.length + 1);
    return std::make_shared<const TextPart<Token>>(shared, first, count, options.length);
  };
  return {.train = part("train", 0, all - test), .test = part("test", all - test, test)};
}

// Characters by their place in the sorted list of those that occur.
Tokens<std::uint32_t> tokens_of(const std::vector<char32_t>& characters) {
  Tokens<std::uint32_t> tokens;
  std::vector<std::uint32_t> number(kLastCodePoint + 1);  // of each code point; 0: none yet
  for (const char32_t character : characters) number[character] = 1;
  for (std::size_t point = 0; point < number.size(); ++point) {
    if (number[point] == 0) continue;
    number[point] = static_cast<std::uint32_t>(tokens.vocabulary.size());
    tokens.vocabulary.push_back(static_cast<std::int64_t>(point));
  }
  tokens.values.reserve(characters.size());
  for (const char32_t character : characters) tokens.values.push_back(number[character]);
  tokens.classes = static_cast<int>(tokens.vocabulary.size());
  return tokens;
}

}  // namespace

TextOptions parse_text(const std::string& text) {
  TextOptions options;
  KeyValues keys("text data");
  keys.choice("tokens", options.tokens, {"bytes", "characters"});
  keys.whole_number("length", options.length, 1, kLongest);
  keys.fraction("test", options.test);
  options.file = keys.read_behind(text);
  return options;
}

Datasets open_text(const TextOptions& options) {
  require(!options.file.empty(), "no file is named; write text:FILE");
  std::vector<std::uint8_t> bytes = ByteReader(options.file).take_rest();
  require(!bytes.empty(), "{}: the file is empty", options.file.string());
  if (options.tokens == "bytes") {
    return parts_of(Tokens<std::uint8_t>{.values = std::move(bytes), .classes = kBytes}, options);
  }
  Tokens<std::uint32_t> tokens = tokens_of(decode_utf8(bytes, options.file.string()));
  require(tokens.classes >= 2, "{}: all characters are the same, so there is nothing to learn",
          options.file.string());
  return parts_of(std::move(tokens), options);
}

}  // namespace daso
