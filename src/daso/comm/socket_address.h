// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "daso/comm/network.h"

namespace daso {

// A numeric address as the system's calls take it.
class SocketAddress {
 public:
  explicit SocketAddress(const Address& numeric);

  int family() const { return storage_.ss_family; }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t bytes() const {
    return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  }

 private:
  sockaddr_storage storage_{};
};

}  // namespace daso
