// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/store.h"

// A store for members of a job alone (store.h), from below:
//
//   table         the keys and values, what is asked of them, as bytes, and the calls that ask
//   table_host    lets in who proves that it knows the job's key, and answers
//   table_client  asks; where a connection ends, since something was damaged on the way, it makes
//                 another one and asks again
namespace daso::tcp {

struct TableQuestion {
  enum class What : std::uint8_t { kSet, kSetOnce, kFind, kAdd, kAppend, kErase, kEraseRange };
  std::uint64_t client = 0;  // a number that it has drawn
  std::uint64_t number = 0;  // ascends; the same where it is asked again
  What what = What::kFind;
  std::string key;
  std::string value;  // of a range, where it ends
  std::int64_t amount = 0;
};
std::vector<std::byte> encode(const TableQuestion& question);
std::optional<TableQuestion> decode_question(std::span<const std::byte> bytes);

struct TableAnswer {
  std::uint64_t number = 0;  // the question's
  std::optional<std::string> value;
  std::int64_t count = 0;
};
std::vector<std::byte> encode(const TableAnswer& answer);
std::optional<TableAnswer> decode_answer(std::span<const std::byte> bytes);

inline constexpr std::size_t kMostTableBytes = std::size_t{64} << 20;  // of a question or an answer
inline constexpr Seconds kForTableProof{2};  // from a call until both ends have proved themselves

// For any thread.
class Table {
 public:
  // What a client has asked before is not done again, and gets the same answer. That is kept of the
  // last thing that each client has changed, and of so many clients; what it finds may be large,
  // and is found again.
  TableAnswer answer(const TableQuestion& question);

 private:
  TableAnswer act(const TableQuestion& question);

  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::uint64_t, TableAnswer> last_;  // by client
  std::vector<std::uint64_t> clients_;    // of those, the oldest first
};

// A store whose calls are questions.
class AskedTable : public StoreTable {
 public:
  void set(const std::string& key, const std::string& value) final;
  std::string set_once(const std::string& key, const std::string& value) final;
  std::optional<std::string> find(const std::string& key) final;
  std::int64_t add(const std::string& key, std::int64_t amount) final;
  void append(const std::string& key, const std::string& value) final;
  void erase(const std::string& key) final;
  void erase_range(const std::string& first, const std::string& end) final;

 private:
  // Gives it its client and number.
  virtual TableAnswer ask(TableQuestion question) = 0;
};

}  // namespace daso::tcp
