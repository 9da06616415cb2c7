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
// Differs between machines, also where they call themselves alike.
std::string machine_identity();
// The numeric addresses that a host's name has here; throws ConfigError if it has none.
std::vector<std::string> addresses_of(const std::string& host);
bool is_known(const std::string& host);  // has it any?

// A socket that listens on this address and no other. Port 0 lets the kernel choose.
// Throws ConfigError if the address is not ours or the port is taken.
FileDescriptor listen_on(const Address& address);

// A range of ports, both ends included; 0 to 0 lets the kernel choose.
struct Ports {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool any() const { return first == 0; }
  std::string text() const;  // 42000-42100
};
Ports parse_ports(const std::string& text);  // the inverse; throws ConfigError
// The same on the first of these ports that is free; throws ConfigError if none is.
FileDescriptor listen_on(const std::string& host, const Ports& ports);
// The numeric address that a socket is bound to.
Address bound_address(const FileDescriptor& socket);

// The own numeric address from which packets to `host` leave: the one others can reach us at when
// they can reach `host`. Throws ConfigError if the name is unknown or there is no way.
std::string own_address_towards(const std::string& host);

struct NetworkDevice {
  std::string name;
  std::string address;   // numeric; IPv4 where the device has one
  int network_bits = 0;  // of the address, those that all machines of its network have
  bool up = false;       // and the cable is in
  bool loopback = false;
  std::optional<int> megabits_per_second;  // where the driver tells
};

std::vector<NetworkDevice> network_devices();
// The numeric address of a device; throws ConfigError naming the devices there are.
std::string address_of_device(const std::string& name);
bool is_loopback(const std::string& numeric_address);
// An address that a machine has given itself; it leads no further than the cable.
bool is_link_local(const std::string& numeric_address);
// Is that address in the network which the device is connected to?
bool is_neighbour(const NetworkDevice& device, const std::string& numeric_address);

}  // namespace daso
