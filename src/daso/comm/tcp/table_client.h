// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "daso/base/file_descriptor.h"
#include "daso/base/seconds.h"
#include "daso/comm/store.h"
#include "daso/comm/tcp/frame.h"
#include "daso/comm/tcp/table.h"

namespace daso::tcp {

// Asks a TableHost, one question at a time.
class TableClient final : public AskedTable {
 public:
  // Throws PeerError if nobody answers within the limit. Later calls each have `per_call`. Where
  // there is a first connection to this host, one who listens no more has ended, and this one is
  // abandoned with that.
  TableClient(Address address, std::string key, Seconds limit, Seconds per_call,
              const std::optional<std::stop_token>& first = {});
  TableClient(const TableClient&) = delete;
  TableClient& operator=(const TableClient&) = delete;

  const Address& address() const override { return address_; }
  std::shared_ptr<StoreTable> second_connection() override;
  void abandon() override;

 private:
  TableAnswer ask(TableQuestion question) override;
  TableAnswer answer_to(const TableQuestion& question, Deadline& deadline);
  void connect(const Deadline& deadline);
  void send(std::span<const std::byte> bytes, Deadline& deadline);
  TableAnswer receive(Deadline& deadline);
  // Until the socket can be read (or written).
  void wait(short events, Deadline& deadline);
  [[noreturn]] void throw_silent() const;

  const Address address_;
  const std::string key_;
  const Seconds per_call_;
  const std::uint64_t client_;
  std::stop_source abandoned_;
  const FileDescriptor bell_;  // rings once it is
  const std::stop_callback<std::function<void()>> with_first_;
  std::mutex mutex_;           // guards the rest
  FileDescriptor socket_;      // none: to be made anew
  FrameReader reader_;
  std::uint64_t asked_ = 0;
  // The host has not answered this one in time: nobody waits for it again until it has.
  std::optional<std::uint64_t> late_;
};

}  // namespace daso::tcp
