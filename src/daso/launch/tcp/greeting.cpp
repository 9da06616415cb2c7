// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/tcp/greeting.h"

#include <cstring>

#include "daso/base/error.h"
#include "daso/comm/socket_address.h"

namespace daso {
namespace {

// As it travels, in the byte order of the machines that there are; host and text follow.
struct Written {
  std::uint64_t incarnation;
  std::uint32_t node;
  std::uint32_t port;
  std::uint32_t host_bytes;
  std::uint32_t text_bytes;
};
static_assert(sizeof(Written) == 24);

bool is_numeric(const Address& address) {
  try {
    const SocketAddress where(address);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

std::vector<std::byte> encode(const SignedGreeting& greeting) {
  const auto& [address, text] = greeting.greeting;
  const Written head{.incarnation = greeting.from.incarnation,
                     .node = greeting.from.node,
                     .port = address.port,
                     .host_bytes = static_cast<std::uint32_t>(address.host.size()),
                     .text_bytes = static_cast<std::uint32_t>(text.size())};
  std::vector<std::byte> bytes;
  for (const auto part : {std::as_bytes(std::span(&head, 1)),
                          std::as_bytes(std::span(address.host)), std::as_bytes(std::span(text))}) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

std::optional<SignedGreeting> decode_greeting(std::span<const std::byte> bytes) {
  Written head{};
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  const std::string rest(reinterpret_cast<const char*>(bytes.data()) + sizeof head,
                         bytes.size() - sizeof head);
  if (std::uint64_t{head.host_bytes} + head.text_bytes != rest.size()) return std::nullopt;
  if (head.port > UINT16_MAX || head.text_bytes > kMostGreetingText) return std::nullopt;
  SignedGreeting greeting{.from = {.node = head.node, .incarnation = head.incarnation},
                          .greeting = {.address = {.host = rest.substr(0, head.host_bytes),
                                                   .port = static_cast<std::uint16_t>(head.port)},
                                       .text = rest.substr(head.host_bytes)}};
  const Address& address = greeting.greeting.address;
  if (address.port != 0 && !is_numeric(address)) return std::nullopt;
  return greeting;
}

}  // namespace daso
