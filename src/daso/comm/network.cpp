// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;
using DeviceList = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

AddressList look_up(const std::string& host, std::uint16_t port, int socket_type) {
  addrinfo wanted{};
  wanted.ai_socktype = socket_type;
  addrinfo* found = nullptr;
  const int failure = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  require(failure == 0, "host '{}' is unknown here ({}); give a name or a numeric address", host,
          ::gai_strerror(failure));
  return {found, &::freeaddrinfo};
}

std::string numeric(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = nullptr;
  if (address->sa_family == AF_INET) {
    bytes = &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
  } else {
    bytes = &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  }
  return ::inet_ntop(address->sa_family, bytes, text.data(), text.size()) == nullptr ? ""
                                                                                     : text.data();
}

Address address_of(int descriptor) {
  sockaddr_storage storage{};
  socklen_t bytes = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  DASO_ASSERT(::getsockname(descriptor, address, &bytes) == 0);
  const std::uint16_t port = address->sa_family == AF_INET
                                 ? reinterpret_cast<sockaddr_in*>(address)->sin_port
                                 : reinterpret_cast<sockaddr_in6*>(address)->sin6_port;
  return {numeric(address), ntohs(port)};
}

bool is_wildcard(const std::string& numeric_address) {
  return numeric_address == "0.0.0.0" || numeric_address == "::";
}

// IPv4 first, then addresses that need no device name beside them, then link-local ones.
int preference(const sockaddr* address) {
  if (address->sa_family == AF_INET) return 0;
  const in6_addr& bytes = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LINKLOCAL(&bytes) ? 2 : 1;
}

int bits_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const auto* bytes = mask->sa_family == AF_INET
                          ? reinterpret_cast<const std::uint8_t*>(
                                &reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
                          : reinterpret_cast<const std::uint8_t*>(
                                &reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr);
  int bits = 0;
  for (std::size_t i = 0; i < (mask->sa_family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr));
       ++i) {
    bits += std::popcount(bytes[i]);
  }
  return bits;
}

std::optional<int> speed_of(const std::string& device) {
  std::ifstream file("/sys/class/net/" + device + "/speed");
  int speed = 0;
  if (!(file >> speed) || speed <= 0) return std::nullopt;  // virtual devices say -1 or nothing
  return speed;
}

struct Listening {
  FileDescriptor socket;  // not open: the error
  int error = 0;
};

Listening try_to_listen(const Address& address) {
  Listening result;
  const AddressList found = look_up(address.host, address.port, SOCK_STREAM);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    require(!is_wildcard(numeric(one->ai_addr)),
            "cannot listen on {}: it means every network device; name one address of this machine",
            address.text());
    FileDescriptor socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;  // a port whose last owner has just gone is free
    if (socket.open() &&
        ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        ::bind(socket.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0) {
      return {.socket = std::move(socket)};
    }
    result.error = errno;
  }
  return result;
}

[[noreturn]] void refuse_to_listen(const Address& address, int error) {
  const char* advice = error == EADDRINUSE      ? "choose another port, or end what uses it"
                       : error == EADDRNOTAVAIL ? "choose an address of this machine"
                                                : "choose another address";
  throw ConfigError(
      fmt::format("cannot listen on {}: {}; {}", address.text(), std::strerror(error), advice));
}

}  // namespace

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Address parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const bool two_parts = colon != std::string::npos;
  std::string host = two_parts ? text.substr(0, colon) : "";
  // Out of range where there is none.
  const std::int64_t port = two_parts ? parse_integer(text.substr(colon + 1)).value_or(-1) : -1;
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  require(!host.empty() && port >= 0 && port <= 65535 &&
              (bracketed || host.find_first_of(":[]") == std::string::npos),
          "'{}' is not an address; write HOST:PORT like node7:29500, or [::1]:29500 for IPv6",
          text);
  return {host, static_cast<std::uint16_t>(port)};
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  DASO_ASSERT(::gethostname(name.data(), name.size() - 1) == 0);
  return name.data();
}

std::string machine_identity() {
  std::string boot;  // of the kernel's start: on no two machines the same
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  // Machines that are made of network namespaces share their kernel.
  std::error_code ignored;
  const std::filesystem::path network = std::filesystem::read_symlink("/proc/self/ns/net", ignored);
  return fmt::format("{} {}", boot, network.string());
}

std::vector<std::string> addresses_of(const std::string& host) {
  const AddressList found = look_up(host, /*port=*/0, SOCK_STREAM);
  std::vector<std::string> addresses;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    addresses.push_back(numeric(one->ai_addr));
  }
  return addresses;
}

bool is_known(const std::string& host) {
  try {
    return !host.empty() && !addresses_of(host).empty();
  } catch (const ConfigError&) {
    return false;
  }
}

FileDescriptor listen_on(const Address& address) {
  Listening listening = try_to_listen(address);
  if (!listening.socket.open()) refuse_to_listen(address, listening.error);
  return std::move(listening.socket);
}

std::string Ports::text() const { return fmt::format("{}-{}", first, last); }

Ports parse_ports(const std::string& text) {
  const std::size_t dash = text.find('-');
  const bool two = dash != std::string::npos;
  const std::int64_t first = parse_integer(text.substr(0, dash)).value_or(0);
  const std::int64_t last = two ? parse_integer(text.substr(dash + 1)).value_or(0) : first;
  require(first >= 1 && last >= first && last <= 65535,
          "'{}' is no range of ports; write FIRST-LAST like 42000-42100", text);
  return {static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)};
}

FileDescriptor listen_on(const std::string& host, const Ports& ports) {
  if (ports.any()) return listen_on({host, 0});
  for (int port = ports.first; port <= ports.last; ++port) {
    const Address address{host, static_cast<std::uint16_t>(port)};
    Listening listening = try_to_listen(address);
    if (listening.socket.open()) return std::move(listening.socket);
    if (listening.error != EADDRINUSE) refuse_to_listen(address, listening.error);
  }
  throw ConfigError(
      fmt::format("all ports {} of {} are taken; each rank of a machine needs one of its own",
                  ports.text(), host));
}

Address bound_address(const FileDescriptor& socket) { return address_of(socket.get()); }

std::string own_address_towards(const std::string& host) {
  // Connecting a datagram socket sends nothing: the kernel only chooses the way and our address.
  constexpr std::uint16_t kAnyPort = 9;
  int error = 0;
  const AddressList found = look_up(host, kAnyPort, SOCK_DGRAM);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    const FileDescriptor socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.open() && ::connect(socket.get(), one->ai_addr, one->ai_addrlen) == 0) {
      return address_of(socket.get()).host;
    }
    error = errno;
  }
  throw ConfigError(fmt::format("there is no way from here to host '{}': {}; check the network",
                                host, std::strerror(error)));
}

std::vector<NetworkDevice> network_devices() {
  ifaddrs* raw = nullptr;
  DASO_ASSERT(::getifaddrs(&raw) == 0);
  const DeviceList list(raw, &::freeifaddrs);
  std::vector<NetworkDevice> devices;
  std::vector<int> preferences;  // of the address that each device has so far
  for (const ifaddrs* one = list.get(); one != nullptr; one = one->ifa_next) {
    auto device = std::find_if(devices.begin(), devices.end(),
                               [&](const NetworkDevice& d) { return d.name == one->ifa_name; });
    if (device == devices.end()) {
      devices.push_back(
          {.name = one->ifa_name,
           .address = "",
           .up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_RUNNING) != 0,
           .loopback = (one->ifa_flags & IFF_LOOPBACK) != 0,
           .megabits_per_second = speed_of(one->ifa_name)});
      preferences.push_back(INT_MAX);
      device = devices.end() - 1;
    }
    const sockaddr* address = one->ifa_addr;
    if (address == nullptr) continue;
    if (address->sa_family != AF_INET && address->sa_family != AF_INET6) continue;
    int& best = preferences[static_cast<std::size_t>(device - devices.begin())];
    if (preference(address) >= best) continue;
    best = preference(address);
    device->address = numeric(address);
    device->network_bits = bits_of(one->ifa_netmask);
  }
  return devices;
}

std::string address_of_device(const std::string& name) {
  std::vector<std::string> names;
  for (const NetworkDevice& device : network_devices()) {
    if (device.name == name) {
      require(!device.address.empty(), "network device '{}' has no address; choose another", name);
      return device.address;
    }
    names.push_back(device.name);
  }
  throw ConfigError(
      fmt::format("there is no network device '{}' here; there are: {}", name, join(names, ", ")));
}

bool is_loopback(const std::string& numeric_address) {
  return numeric_address.starts_with("127.") || numeric_address == "::1" ||
         numeric_address.starts_with("::ffff:127.");
}

bool is_link_local(const std::string& numeric_address) {
  in6_addr bytes{};
  if (::inet_pton(AF_INET6, numeric_address.c_str(), &bytes) == 1) {
    return IN6_IS_ADDR_LINKLOCAL(&bytes);
  }
  return numeric_address.starts_with("169.254.");
}

bool is_neighbour(const NetworkDevice& device, const std::string& numeric_address) {
  const int family = device.address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  std::array<std::uint8_t, sizeof(in6_addr)> ours{};
  std::array<std::uint8_t, sizeof(in6_addr)> theirs{};
  if (::inet_pton(family, device.address.c_str(), ours.data()) != 1 ||
      ::inet_pton(family, numeric_address.c_str(), theirs.data()) != 1) {
    return false;
  }
  for (int bit = 0; bit < device.network_bits; ++bit) {
    const auto byte = static_cast<std::size_t>(bit / 8);
    if ((((ours[byte] ^ theirs[byte]) >> (7 - bit % 8)) & 1) != 0) return false;
  }
  return true;
}

}  // namespace daso
