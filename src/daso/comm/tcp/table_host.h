// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daso/base/file_descriptor.h"
#include "daso/comm/store.h"
#include "daso/comm/tcp/caller.h"
#include "daso/comm/tcp/frame.h"
#include "daso/comm/tcp/table.h"

namespace daso::tcp {

// The table, and the thread that answers for it. Whoever calls has two seconds to prove itself;
// what was damaged on the way ends a connection. The host's own calls stay in its process.
class TableHost final : public AskedTable, public std::enable_shared_from_this<TableHost> {
 public:
  TableHost(FileDescriptor listening, std::string key);
  TableHost(const TableHost&) = delete;
  TableHost& operator=(const TableHost&) = delete;
  ~TableHost() override;

  const Address& address() const override { return address_; }
  std::shared_ptr<StoreTable> second_connection() override { return shared_from_this(); }
  void abandon() override {}

 private:
  struct Client {
    FileDescriptor socket;
    FrameReader reader;
    std::vector<std::byte> outgoing;
    bool full = false;  // the socket takes no more of it now
    bool over = false;
  };

  TableAnswer ask(TableQuestion question) override;

  // The thread's.
  void work(const std::stop_token& stop);
  void watch(int how, int descriptor, std::uint32_t events) const;
  void admit();
  void advance(Caller& caller);
  void read(Client& client);
  void write(Client& client);
  void drop_late_callers();

  const FileDescriptor listening_;
  const Address address_;
  const std::string key_;
  Table table_;
  std::atomic<std::uint64_t> asked_ = 0;  // by the host itself
  std::list<Caller> callers_;             // the oldest first
  std::list<Client> clients_;
  const FileDescriptor poller_;
  const FileDescriptor bell_;
  bool deaf_ = false;    // there was no descriptor left for one who called
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace daso::tcp
