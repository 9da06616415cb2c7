// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/file_descriptor.h"

namespace daso {

// Where something listens. A host is a name or a numeric address.
struct Address {
  std::string host;
  std::uint16_t port = 0;
  std::string text() const;  // host:port, or [host]:port for a numeric IPv6 address
};

// The inverse of Address::text; throws ConfigError.
Address parse_address(const std::string& text);

std::string host_name();

// A socket that listens on this address and no other. Port 0 lets the kernel choose.
// Throws ConfigError if the address is not ours or the port is taken.
FileDescriptor listen_on(const Address& address);
// The numeric address that a socket is bound to.
Address bound_address(const FileDescriptor& socket);

// The own numeric address from which packets to `host` leave: the one others can reach us at when
// they can reach `host`. Throws ConfigError if the name is unknown or there is no way.
std::string own_address_towards(const std::string& host);

struct NetworkDevice {
  std::string name;
  std::string address;  // numeric; IPv4 where the device has one
  bool up = false;
  bool loopback = false;
  std::optional<int> megabits_per_second;  // where the driver tells
};

std::vector<NetworkDevice> network_devices();
// The numeric address of a device; throws ConfigError naming the devices there are.
std::string address_of_device(const std::string& name);
bool is_loopback(const std::string& numeric_address);

}  // namespace daso
