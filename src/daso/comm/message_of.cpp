// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/message_of.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <new>
#include <string_view>

namespace daso {
namespace {

// LibTorch's allocator has no exception of its own, only these words before the number of bytes.
constexpr std::string_view kAsked = "you tried to allocate ";

bool is_short_of_memory(const std::exception& error, const std::string& text) {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
         dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         text.find(kAsked) != std::string::npos;
}

// " for 4096 bytes", or nothing where the text does not say how many were asked for.
std::string bytes_asked(const std::string& text) {
  const std::size_t place = text.find(kAsked);
  if (place == std::string::npos) return "";
  const std::string rest = text.substr(place + kAsked.size());
  return fmt::format(" for {} bytes more", rest.substr(0, rest.find_first_not_of("0123456789")));
}

}  // namespace

std::string message_of(const std::exception& error) {
  const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      from_torch == nullptr ? error.what() : from_torch->what_without_backtrace();
  if (is_short_of_memory(error, text)) {
    return fmt::format(
        "there is no memory{}; take smaller batches, a smaller model or fewer ranks on this "
        "machine",
        bytes_asked(text));
  }
  return from_torch == nullptr ? text : text.substr(0, text.find('\n'));
}

}  // namespace daso
