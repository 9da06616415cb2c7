// SPDX-License-Identifier: Apache-2.0
#include "daso/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

bool is_control(char32_t point) { return point < 0x20 || (point >= 0x7f && point < 0xa0); }

}  // namespace

std::optional<Utf8Character> first_character(std::span<const std::uint8_t> bytes) {
  const Form* const form = bytes.empty() ? nullptr : form_of(bytes[0]);
  if (form == nullptr || bytes.size() < form->bytes) return std::nullopt;
  char32_t point = bytes[0] & static_cast<std::uint8_t>(~form->mask);
  for (const std::uint8_t byte : bytes.subspan(1, form->bytes - 1)) {
    if ((byte & 0xc0) != 0x80) return std::nullopt;
    point = point << 6 | (byte & 0x3f);
  }
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  if (point < form->least || point > kLastCodePoint || surrogate) return std::nullopt;
  return Utf8Character{.point = point, .bytes = form->bytes};
}

// From the last byte to the first; that one has what is left, behind its mark.
std::string utf8_of(char32_t point) {
  const auto form = std::find_if(kForms.rbegin(), kForms.rend(),
                                 [&](const Form& one) { return point >= one.least; });
  std::string bytes(form->bytes, '\0');
  for (std::size_t i = form->bytes - 1; i > 0; --i, point >>= 6) {
    bytes[i] = static_cast<char>(0x80 | (point & 0x3f));
  }
  bytes[0] = static_cast<char>(form->mark | point);
  return bytes;
}

bool is_utf8(std::string_view text) {
  for (std::span<const std::uint8_t> rest = bytes_of(text); !rest.empty();) {
    const std::optional<Utf8Character> first = first_character(rest);
    if (!first) return false;
    rest = rest.subspan(first->bytes);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::optional<Utf8Character> first = first_character(bytes_of(text));
    const std::size_t bytes = first ? first->bytes : 1;
    if (first && !is_control(first->point)) {
      shown += text.substr(0, bytes);
    } else {
      for (const std::uint8_t byte : bytes_of(text.substr(0, bytes))) {
        shown += fmt::format("\\x{:02x}", byte);
      }
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

}  // namespace daso
