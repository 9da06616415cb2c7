// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>

#include "daso/base/error.h"
#include "refusal.h"

namespace daso {
namespace {

TEST(Address, ReadsWhatItWrites) {
  for (const char* text : {"node7:29500", "10.77.0.1:1", "[::1]:65535", "localhost:0"}) {
    EXPECT_EQ(parse_address(text).text(), text);
  }
  EXPECT_EQ(parse_address("[fe80::2]:80").host, "fe80::2");
  EXPECT_EQ(parse_address("h:80").port, 80);
}

TEST(Address, RefusesWhatIsNoHostAndPort) {
  for (const char* text : {"", "host", "host:", ":80", "host:65536", "host:-1", "host:8o", "::1:80",
                           "[]:80", "host: 80"}) {
    EXPECT_THROW(parse_address(text), ConfigError) << text;
  }
}

bool connects(const Address& address) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(address.port);
  ::inet_pton(AF_INET, address.host.c_str(), &to.sin_addr);
  return ::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
}

TEST(ListenOn, ListensOnThatAddressAndNoOther) {
  const FileDescriptor socket = listen_on({"127.0.0.1", 0});
  const Address bound = bound_address(socket);
  EXPECT_EQ(bound.host, "127.0.0.1");
  EXPECT_NE(bound.port, 0);
  EXPECT_TRUE(connects(bound));
  EXPECT_FALSE(connects({"127.0.0.2", bound.port}));
}

TEST(ListenOn, IsNotInheritedByPrograms) {
  const FileDescriptor socket = listen_on({"127.0.0.1", 0});
  EXPECT_EQ(::fcntl(socket.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST(ListenOn, RefusesATakenPortAndAForeignAddress) {
  const FileDescriptor socket = listen_on({"127.0.0.1", 0});
  EXPECT_THROW(listen_on(bound_address(socket)), ConfigError);
  EXPECT_THROW(listen_on({"192.0.2.1", 0}), ConfigError);  // reserved for documentation
  EXPECT_THROW(listen_on({"0.0.0.0", 0}), ConfigError);
  EXPECT_THROW(listen_on({"no-such-host.invalid", 0}), ConfigError);
}

TEST(ListenOn, FreesThePortWithTheDescriptor) {
  const Address address = bound_address(listen_on({"127.0.0.1", 0}));
  EXPECT_EQ(bound_address(listen_on(address)).port, address.port);
}

TEST(ListenOn, TakesTheFirstFreePortOfARange) {
  // Two neighbours that are free: one of the kernel's choice, and the one behind it.
  Ports ports;
  FileDescriptor first;
  for (int tries = 0; tries < 100 && !first.open(); ++tries) {
    const std::uint16_t port = bound_address(listen_on({"127.0.0.1", 0})).port;
    ports = {port, static_cast<std::uint16_t>(port + 1)};
    try {
      listen_on({"127.0.0.1", ports.last});
      first = listen_on("127.0.0.1", ports);
    } catch (const ConfigError&) {
    }
  }
  EXPECT_EQ(bound_address(first).port, ports.first);
  const FileDescriptor second = listen_on("127.0.0.1", ports);
  EXPECT_EQ(bound_address(second).port, ports.last);
  EXPECT_TRUE(test::refusal([&] {
                listen_on("127.0.0.1", ports);
              }).starts_with("all ports " + ports.text() + " of 127.0.0.1 are taken"));
}

TEST(Ports, ReadWhatTheyWrite) {
  EXPECT_EQ(parse_ports("42000-42100").text(), "42000-42100");
  EXPECT_EQ(parse_ports("42000").text(), "42000-42000");
  for (const char* text : {"", "-", "a-b", "2-1", "0-10", "1-65536", "1-2-3", "1--2"}) {
    EXPECT_NE(test::refusal([&] { parse_ports(text); }).find("is no range of ports"), std::string::npos);
  }
}

TEST(OwnAddress, TowardsLoopbackIsLoopback) {
  EXPECT_EQ(own_address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_TRUE(is_loopback(own_address_towards("localhost")));
  EXPECT_THROW(own_address_towards("no-such-host.invalid"), ConfigError);
}

TEST(NetworkDevices, HoldLoopback) {
  const std::vector<NetworkDevice> devices = network_devices();
  const auto loopback = std::find_if(devices.begin(), devices.end(),
                                     [](const NetworkDevice& device) { return device.loopback; });
  ASSERT_NE(loopback, devices.end());
  EXPECT_TRUE(loopback->up);
  EXPECT_EQ(loopback->address, "127.0.0.1");
  EXPECT_EQ(loopback->network_bits, 8);
  EXPECT_EQ(address_of_device(loopback->name), "127.0.0.1");
}

TEST(NetworkDevices, AreNamedWhenOneDoesNotExist) {
  try {
    address_of_device("nosuch0");
    FAIL() << "a device that does not exist has an address";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("nosuch0"), std::string::npos);
    for (const NetworkDevice& device : network_devices()) {
      EXPECT_NE(text.find(device.name), std::string::npos);
    }
  }
}

TEST(IsLoopback, IsTrueOfTheWholeBlock) {
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.0.1.1"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("12.7.0.1"));
  EXPECT_FALSE(is_loopback("::"));
}

TEST(IsLinkLocal, IsTrueOfAddressesThatMachinesGiveThemselves) {
  EXPECT_TRUE(is_link_local("169.254.3.1"));
  EXPECT_TRUE(is_link_local("fe80::2"));
  EXPECT_FALSE(is_link_local("169.25.4.1"));
  EXPECT_FALSE(is_link_local("10.77.0.1"));
  EXPECT_FALSE(is_link_local("fd00::2"));
}

TEST(IsNeighbour, ComparesTheBitsOfTheNetwork) {
  const NetworkDevice four{.name = "", .address = "10.77.4.1", .network_bits = 22};
  EXPECT_TRUE(is_neighbour(four, "10.77.7.255"));
  EXPECT_FALSE(is_neighbour(four, "10.77.8.1"));
  EXPECT_FALSE(is_neighbour(four, "fd00::1"));
  EXPECT_FALSE(is_neighbour(four, "nobody"));
  const NetworkDevice six{.name = "", .address = "fd00:0:0:1::1", .network_bits = 64};
  EXPECT_TRUE(is_neighbour(six, "fd00:0:0:1:ffff::9"));
  EXPECT_FALSE(is_neighbour(six, "fd00:0:0:2::1"));
}

TEST(AddressesOf, AreNumericOrTheNameIsUnknown) {
  EXPECT_EQ(addresses_of("127.0.1.1"), std::vector<std::string>{"127.0.1.1"});
  EXPECT_TRUE(is_known("localhost"));
  EXPECT_FALSE(is_known("no-such-host.invalid"));
  EXPECT_FALSE(is_known(""));
  EXPECT_THROW(addresses_of("no-such-host.invalid"), ConfigError);
}

TEST(MachineIdentity, IsTheSameAgain) { EXPECT_EQ(machine_identity(), machine_identity()); }

TEST(HostName, IsNotEmpty) { EXPECT_FALSE(host_name().empty()); }

}  // namespace
}  // namespace daso
