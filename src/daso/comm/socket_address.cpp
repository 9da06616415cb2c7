// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/socket_address.h"

#include <arpa/inet.h>

#include <cstring>

#include "daso/base/error.h"

namespace daso {

SocketAddress::SocketAddress(const Address& numeric) {
  sockaddr_in four{
      .sin_family = AF_INET, .sin_port = htons(numeric.port), .sin_addr = {}, .sin_zero = {}};
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(numeric.port);
  if (::inet_pton(AF_INET, numeric.host.c_str(), &four.sin_addr) == 1) {
    std::memcpy(&storage_, &four, sizeof four);
    return;
  }
  require(::inet_pton(AF_INET6, numeric.host.c_str(), &six.sin6_addr) == 1,
          "'{}' is not a numeric address", numeric.host);
  std::memcpy(&storage_, &six, sizeof six);
}

}  // namespace daso
