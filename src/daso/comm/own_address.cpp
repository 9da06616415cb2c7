// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/own_address.h"

#include <algorithm>
#include <map>
#include <optional>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr const char* kFarAway = "192.0.2.1";  // reserved for documentation: in nobody's network

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// None where there is no way, or only one inside this machine.
std::optional<std::string> way_to(const std::string& host) {
  try {
    std::string own = own_address_towards(host);
    if (!is_loopback(own)) return own;
  } catch (const ConfigError&) {
    // Another address of the same machine may do.
  }
  return std::nullopt;
}

// The own address from which one of these is reached. A network that both machines are in is better
// than a way through gateways, which may lead nowhere.
std::optional<std::string> way_to_any(const std::vector<std::string>& addresses,
                                      const std::vector<NetworkDevice>& devices) {
  for (const std::string& address : addresses) {
    for (const NetworkDevice& device : devices) {
      if (device.up && !device.loopback && is_neighbour(device, address)) return device.address;
    }
  }
  for (const std::string& address : addresses) {
    if (const auto own = way_to(address)) return own;
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> in_order(const std::vector<NetworkDevice>& devices,
                                  const std::string& usual) {
  std::vector<std::string> addresses;
  for (const NetworkDevice& device : devices) {
    if (!device.up || device.loopback || device.address.empty()) continue;
    // Such an address of IPv6 means nothing without the name of a device, which others have not.
    const bool scoped =
        is_link_local(device.address) && device.address.find(':') != std::string::npos;
    if (!scoped) addresses.push_back(device.address);
  }
  std::ranges::stable_sort(addresses, {}, [&](const std::string& address) {
    return is_link_local(address) ? 2 : address == usual ? 0 : 1;
  });
  return addresses;
}

std::vector<std::string> outward_addresses() {
  return in_order(network_devices(), way_to(kFarAway).value_or(""));
}

std::string outward_address() {
  const std::vector<std::string> addresses = outward_addresses();
  return addresses.empty() ? kLoopback : addresses.front();
}

std::string address_towards(const std::vector<std::vector<std::string>>& others) {
  const std::vector<NetworkDevice> devices = network_devices();
  const std::vector<std::string> own = outward_addresses();
  std::map<std::string, int> reached;  // by own address: how many ranks of other machines
  bool alone = true;
  for (const std::vector<std::string>& told : others) {
    // An address that we have, too, is one that every machine gives itself, as bridges have.
    std::vector<std::string> theirs;
    std::vector<std::string> link_local;
    for (const std::string& address : told) {
      if (!contains(own, address))
        (is_link_local(address) ? link_local : theirs).push_back(address);
    }
    if (theirs.empty() && link_local.empty()) continue;
    alone = false;
    std::optional<std::string> way = way_to_any(theirs, devices);
    if (!way) way = way_to_any(link_local, devices);
    if (way) ++reached[*way];
  }
  if (alone) return kLoopback;
  if (reached.empty()) return outward_address();
  return std::ranges::max_element(reached, {}, [](const auto& entry) { return entry.second; })
      ->first;
}

std::string address_on_device(const std::string& host, const std::string& device) {
  const std::string address = address_of_device(device);
  const std::vector<std::string> meant = addresses_of(host);
  if (contains(meant, address) || std::ranges::any_of(meant, is_loopback)) return address;
  throw ConfigError(
      fmt::format("the ranks are to meet at {}, which is {} here, but network device {} has the "
                  "address {}: meet there, or choose another device",
                  host, join(meant, ", "), device, address));
}

}  // namespace daso
