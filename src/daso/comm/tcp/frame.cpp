// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/frame.h"

#include <cstring>

#include "daso/comm/tcp/integrity.h"

namespace daso::tcp {
namespace {

// As it travels, in the byte order of the machines that there are.
struct Written {
  std::uint32_t kind;
  std::uint32_t group;
  std::uint32_t number;
  std::uint32_t checksum;  // of the header, taken with 0 in this place
  std::uint64_t length;
};
static_assert(sizeof(Written) == kHeaderBytes);

std::uint32_t checksum_of(Written wire) {
  wire.checksum = 0;
  return crc32c(0, std::as_bytes(std::span(&wire, 1)));
}

}  // namespace

void encode(const Header& header, std::span<std::byte, kHeaderBytes> bytes) {
  Written wire{.kind = static_cast<std::uint32_t>(header.kind),
               .group = header.tag.group,
               .number = header.tag.number,
               .checksum = 0,
               .length = header.length};
  wire.checksum = checksum_of(wire);
  std::memcpy(bytes.data(), &wire, sizeof wire);
}

std::optional<Header> decode(std::span<const std::byte, kHeaderBytes> bytes) {
  Written wire{};
  std::memcpy(&wire, bytes.data(), sizeof wire);
  const bool known = wire.kind <= static_cast<std::uint32_t>(Header::Kind::kGoodbye);
  if (!known || wire.checksum != checksum_of(wire)) return std::nullopt;
  return Header{.kind = static_cast<Header::Kind>(wire.kind),
                .tag = {.group = wire.group, .number = wire.number},
                .length = wire.length};
}

}  // namespace daso::tcp
