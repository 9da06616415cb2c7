// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "daso/comm/network.h"

// Which of this machine's addresses others are to connect to, where it has several.
namespace daso {

// Those at which other machines may reach us, the best first: that of the default route, then those
// of devices that are up, and link-local ones last.
std::vector<std::string> outward_addresses();
// The first of them; that of loopback where there is none.
std::string outward_address();
// What the two above do. `usual` is the address of the default route, or empty.
std::vector<std::string> in_order(const std::vector<NetworkDevice>& devices,
                                  const std::string& usual);

// The own address from which most of the others are reached: each has told us its
// outward_addresses(). That of loopback where all of them are on this machine.
std::string address_towards(const std::vector<std::vector<std::string>>& others);

// The address of a device that those connect to who look up `host`. Where the name means loopback
// here, that is the device's first. Throws ConfigError if it is the name of another device.
std::string address_on_device(const std::string& host, const std::string& device);

}  // namespace daso
