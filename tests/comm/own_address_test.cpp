// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/own_address.h"

#include <gtest/gtest.h>

#include "daso/base/error.h"

namespace daso {
namespace {

using Addresses = std::vector<std::string>;

NetworkDevice device(const std::string& address, bool up = true, bool loopback = false) {
  return {.name = "d", .address = address, .network_bits = 24, .up = up, .loopback = loopback};
}

TEST(OutwardAddresses, BeginWithTheUsualOneAndEndWithThoseThatLeadNowhere) {
  const std::vector<NetworkDevice> devices = {device("127.0.0.1", /*up=*/true, /*loopback=*/true),
                                              device("169.254.9.1"),
                                              device("172.30.0.1"),
                                              device("10.1.0.1", /*up=*/false),
                                              device("fe80::1"),
                                              device(""),
                                              device("10.77.0.1")};
  EXPECT_EQ(in_order(devices, ""), (Addresses{"172.30.0.1", "10.77.0.1", "169.254.9.1"}));
  EXPECT_EQ(in_order(devices, "10.77.0.1"), (Addresses{"10.77.0.1", "172.30.0.1", "169.254.9.1"}));
  // Better than none.
  EXPECT_EQ(in_order({device("169.254.9.1")}, ""), Addresses{"169.254.9.1"});
}

TEST(OutwardAddresses, AreNoLoopback) {
  for (const std::string& address : outward_addresses()) EXPECT_FALSE(is_loopback(address));
  EXPECT_FALSE(outward_address().empty());
}

TEST(AddressTowards, RanksOfThisMachineIsLoopback) {
  EXPECT_EQ(address_towards({}), "127.0.0.1");
  EXPECT_EQ(address_towards({outward_addresses(), outward_addresses()}), "127.0.0.1");
}

TEST(AddressOnDevice, IsTheDevicesWhereTheNameIsLoopbackAndRefusedWhereItIsAnothers) {
  EXPECT_EQ(address_on_device("127.0.1.1", "lo"), "127.0.0.1");
  EXPECT_EQ(address_on_device("localhost", "lo"), "127.0.0.1");
  EXPECT_THROW(address_on_device("localhost", "nosuch0"), ConfigError);
  try {
    address_on_device("192.0.2.1", "lo");
    FAIL() << "a foreign address is on loopback";
  } catch (const ConfigError& error) {
    for (const char* part : {"192.0.2.1", "network device lo", "127.0.0.1"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace daso
