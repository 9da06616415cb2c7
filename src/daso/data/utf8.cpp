// SPDX-License-Identifier: Apache-2.0
#include "daso/data/utf8.h"

#include <array>
#include <optional>

#include "daso/base/error.h"

namespace daso {
namespace {

// Sequences of one length.
struct Form {
  std::size_t bytes;
  std::uint8_t mask;  // of the first byte: these bits tell the form,
  std::uint8_t mark;  // when they are these;
  char32_t least;     // smaller numbers have a shorter form
};
constexpr std::array<Form, 4> kForms = {{
    {1, 0x80, 0x00, 0x00},
    {2, 0xe0, 0xc0, 0x80},
    {3, 0xf0, 0xe0, 0x800},
    {4, 0xf8, 0xf0, 0x10000},
}};

const Form* form_of(std::uint8_t first) {
  for (const Form& form : kForms) {
    if ((first & form.mask) == form.mark) return &form;
  }
  return nullptr;
}

// The code point of a sequence that begins the bytes; none where there is no such sequence.
std::optional<char32_t> code_point(std::span<const std::uint8_t> bytes, const Form& form) {
  if (bytes.size() < form.bytes) return std::nullopt;
  char32_t value = bytes[0] & static_cast<std::uint8_t>(~form.mask);
  for (const std::uint8_t byte : bytes.subspan(1, form.bytes - 1)) {
    if ((byte & 0xc0) != 0x80) return std::nullopt;
    value = value << 6 | (byte & 0x3f);
  }
  const bool surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < form.least || value > kLastCodePoint || surrogate) return std::nullopt;
  return value;
}

}  // namespace

std::vector<char32_t> decode_utf8(std::span<const std::uint8_t> bytes, const std::string& name) {
  std::vector<char32_t> characters;
  for (std::size_t at = 0; at < bytes.size();) {
    const Form* const form = form_of(bytes[at]);
    const std::optional<char32_t> value =
        form == nullptr ? std::nullopt : code_point(bytes.subspan(at), *form);
    require(value.has_value(),
            "{}: byte {} (0x{:02x}) begins no UTF-8 character; tokens=bytes takes any file", name,
            at, bytes[at]);
    characters.push_back(*value);
    at += form->bytes;
  }
  return characters;
}

}  // namespace daso
