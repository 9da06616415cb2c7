// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "daso/base/error.h"
#include "daso/base/file_descriptor.h"

// Bytes of a file that somebody else has written: no step leads beyond their end.
namespace daso {

// Fills `bytes` from the file's byte `offset` on. Throws ConfigError where it cannot be read or
// ends before; `name` is the file's.
void read_at(const FileDescriptor& file, const std::string& name, std::uint64_t offset,
             std::span<std::byte> bytes);

// Takes numbers, the lowest byte first, and texts from bytes, one behind the other. The bytes are
// borrowed. Throws ConfigError, beginning with `where`, for what is beyond their end.
class ByteCursor {
 public:
  ByteCursor(std::string_view bytes, std::string where)
      : rest_(bytes), whole_(bytes.size()), where_(std::move(where)) {}

  bool at_end() const { return rest_.empty(); }
  std::size_t position() const { return whole_ - rest_.size(); }

  std::string_view text(std::uint64_t bytes) {
    require(bytes <= rest_.size(), "{} ends early, at byte {}", where_, whole_);
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }

  template <std::integral Number>
  Number number() {
    Number value = 0;
    std::memcpy(&value, text(sizeof value).data(), sizeof value);
    return value;
  }

  // Up to the end of the line, which is taken too.
  std::string_view line() {
    const std::size_t end = rest_.find('\n');
    require(end != std::string_view::npos, "{} ends early, at byte {}", where_, whole_);
    const std::string_view taken = text(end);
    text(1);
    return taken;
  }

 private:
  std::string_view rest_;
  std::size_t whole_;
  std::string where_;
};

}  // namespace daso
