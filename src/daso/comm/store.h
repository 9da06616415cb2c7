// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <optional>
#include <string>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/comm/network.h"

namespace c10d {
class Store;
}

namespace daso {

// A small table of keys and values that all ranks of a job see: a c10d TCPStore, its waits limited
// and its errors ours. Copies share one connection, on which one call runs at a time; a thread that
// must not wait for another's call takes a second_connection().
//
// Every call throws PeerError when the host of the store is gone.
class Store {
 public:
  // Serves on a socket that already listens; goes on until the last copy dies.
  static Store host(FileDescriptor listening);
  // Throws PeerError if nobody answers within the limit. Later calls each have `per_call`.
  static Store connect(const Address& address, Seconds limit, Seconds per_call);
  static Store connect(const Address& address, Seconds limit) {
    return connect(address, limit, limit);
  }

  const Address& address() const;

  void set(const std::string& key, const std::string& value) const;
  // Sets it only if it is not set yet; returns the value that then stands.
  std::string set_once(const std::string& key, const std::string& value) const;
  std::optional<std::string> find(const std::string& key) const;
  std::int64_t add(const std::string& key, std::int64_t amount) const;
  // Puts it behind the value that is there, or begins one. Whole, also when others append.
  void append(const std::string& key, const std::string& value) const;
  void erase(const std::string& key) const;

  // The same table seen through a prefix.
  Store under(const std::string& prefix) const;
  Store second_connection() const;

  // For backends of c10d, which build their groups from it.
  c10::intrusive_ptr<c10d::Store> c10d() const;

 private:
  struct Table;
  Store(std::shared_ptr<Table> table, std::string prefix);
  template <typename Call>
  auto reach(Call call) const;

  std::shared_ptr<Table> table_;
  std::string prefix_;
};

}  // namespace daso
