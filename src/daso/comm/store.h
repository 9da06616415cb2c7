// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/comm/network.h"

namespace daso {

// What a Store needs of whoever keeps its keys and values. Calls may come from several threads.
// Every call has a limit and throws PeerError when the host of the table is gone.
class StoreTable {
 public:
  virtual ~StoreTable() = default;

  virtual const Address& address() const = 0;
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::string set_once(const std::string& key, const std::string& value) = 0;
  virtual std::optional<std::string> find(const std::string& key) = 0;
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  virtual void append(const std::string& key, const std::string& value) = 0;
  virtual void erase(const std::string& key) = 0;
  virtual void erase_range(const std::string& first, const std::string& end) = 0;
  // To the same host. It is abandoned with this one, and not the other way round.
  virtual std::shared_ptr<StoreTable> second_connection() = 0;
  // Nobody waits for this connection any more: a call that its host does not answer, now or later,
  // throws at once. From any thread.
  virtual void abandon() = 0;
};

// A small table of keys and values that all ranks of a job see. Copies share one connection, on
// which one call runs at a time; a thread that must not wait for another's call takes a
// second_connection().
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

  // The same for members of a job: who connects proves that it knows the job's key before anything
  // else is read, and what is damaged on the way is said again (tcp/table.h). LibTorch's backends
  // cannot use it. The address is numeric.
  static Store host_for_members(FileDescriptor listening, const std::string& key);
  static Store connect_as_member(const Address& address, const std::string& key, Seconds limit,
                                 Seconds per_call);

  explicit Store(std::shared_ptr<StoreTable> table, std::string prefix = "")
      : table_(std::move(table)), prefix_(std::move(prefix)) {}

  const Address& address() const { return table_->address(); }

  void set(const std::string& key, const std::string& value) const {
    table_->set(prefix_ + key, value);
  }
  // Sets it only if it is not set yet; returns the value that then stands. A value is not empty.
  std::string set_once(const std::string& key, const std::string& value) const {
    return table_->set_once(prefix_ + key, value);
  }
  std::optional<std::string> find(const std::string& key) const {
    return table_->find(prefix_ + key);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) const {
    return table_->add(prefix_ + key, amount);
  }
  // Puts it behind the value that is there, or begins one. Whole, also when others append.
  void append(const std::string& key, const std::string& value) const {
    table_->append(prefix_ + key, value);
  }
  void erase(const std::string& key) const { table_->erase(prefix_ + key); }
  // All keys from `first` on and before `end`, in the order of their bytes.
  void erase_range(const std::string& first, const std::string& end) const {
    table_->erase_range(prefix_ + first, prefix_ + end);
  }

  // The same table seen through a prefix.
  Store under(const std::string& prefix) const { return Store(table_, prefix_ + prefix + "/"); }
  void abandon() const { table_->abandon(); }
  Store second_connection() const { return Store(table_->second_connection(), prefix_); }

  const std::shared_ptr<StoreTable>& table() const { return table_; }
  const std::string& prefix() const { return prefix_; }

 private:
  std::shared_ptr<StoreTable> table_;
  std::string prefix_;
};

}  // namespace daso
