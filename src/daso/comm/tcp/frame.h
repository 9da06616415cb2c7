// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// What travels on a connection once both ends have proved themselves: frames. A frame is a header,
// and for a letter its bytes and their checksum.
namespace daso::tcp {

// Which letter it is, among those of one sender.
struct Tag {
  std::uint32_t group = 0;
  std::uint32_t number = 0;
  auto operator<=>(const Tag&) const = default;
};

struct Header {
  enum class Kind : std::uint32_t {
    kLetter,
    kBeat,     // nothing to say, but alive
    kGoodbye,  // the last frame of one who leaves in good order
  };
  Kind kind = Kind::kLetter;
  Tag tag;
  std::uint64_t length = 0;  // of the letter, in bytes
};

inline constexpr std::size_t kHeaderBytes = 24;
inline constexpr std::size_t kChecksumBytes = 4;

void encode(const Header& header, std::span<std::byte, kHeaderBytes> bytes);
// None for what no sender of ours has written: the header has a checksum of its own.
std::optional<Header> decode(std::span<const std::byte, kHeaderBytes> bytes);

}  // namespace daso::tcp
