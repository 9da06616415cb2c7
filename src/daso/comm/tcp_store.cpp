// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp_store.h"

#include <functional>
#include <stop_token>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <type_traits>
#include <vector>

#include "daso/base/abandonable.h"
#include "daso/base/error.h"

namespace daso {
namespace {

constexpr Seconds kHostLimit{60};   // the host's own calls stay inside its process
constexpr Seconds kLastWords{0.1};  // for an answer that is on its way when a table is abandoned

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// The first line of a LibTorch error; the rest is a stack.
std::string first_line(const char* what) {
  const std::string text = what;
  return text.substr(0, text.find('\n'));
}

// A c10d TCPStore, its waits limited and its errors ours. A call on one whose host is stopped or
// cut off blocks without a limit, so calls are abandoned; until an answer has come after all, those
// that follow fail at once.
class TcpTable final : public StoreTable {
 public:
  // Is abandoned with the first connection, if there is one.
  TcpTable(Address address, c10::intrusive_ptr<c10d::Store> store, Seconds limit,
           const std::stop_token& first = {})
      : address_(std::move(address)),
        store_(std::move(store)),
        limit_(limit),
        with_first_(first, [this] { abandon(); }) {}

  const c10::intrusive_ptr<c10d::Store>& c10d() const { return store_; }
  const Address& address() const override { return address_; }

  void set(const std::string& key, const std::string& value) override {
    reach([key, value](c10d::Store& store) {
      store.set(key, bytes_of(value));
      return true;
    });
  }
  std::string set_once(const std::string& key, const std::string& value) override {
    DASO_ASSERT(!value.empty());  // to a TCPStore the empty value means "not set"
    return reach([key, value](c10d::Store& store) {
      return text_of(store.compareSet(key, bytes_of(""), bytes_of(value)));
    });
  }
  std::optional<std::string> find(const std::string& key) override {
    return reach([key](c10d::Store& store) -> std::optional<std::string> {
      if (!store.check({key})) return std::nullopt;
      return text_of(store.get(key));
    });
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    return reach([key, amount](c10d::Store& store) { return store.add(key, amount); });
  }
  void append(const std::string& key, const std::string& value) override {
    reach([key, value](c10d::Store& store) {
      store.append(key, bytes_of(value));
      return true;
    });
  }
  void erase(const std::string& key) override {
    reach([key](c10d::Store& store) { return store.deleteKey(key); });
  }
  void erase_range(const std::string& first, const std::string& end) override {
    reach([first, end](c10d::Store& store) {
      for (const std::string& key : store.listKeys()) {
        if (first <= key && key < end) store.deleteKey(key);
      }
      return true;
    });
  }
  std::shared_ptr<StoreTable> second_connection() override {
    auto store = reach([](c10d::Store& first) { return first.clone(); });
    return std::make_shared<TcpTable>(address_, std::move(store), limit_, abandoned_.get_token());
  }
  void abandon() override { abandoned_.request_stop(); }

 private:
  template <typename Call>
  std::invoke_result_t<Call&, c10d::Store&> reach(Call call) {
    // Shared with the thread: when the limit passes, that may still write its result.
    struct Result {
      std::invoke_result_t<Call&, c10d::Store&> value{};
      std::string error;
    };
    const auto result = std::make_shared<Result>();
    const auto act = [result, call = std::move(call), store = store_] {
      try {
        result->value = call(*store);
      } catch (const std::exception& error) {
        result->error = first_line(error.what());
        if (result->error.empty()) result->error = "unknown error";
      }
    };
    if (calls_.run(act, Deadline(limit_), "", abandoned_.get_token(), kLastWords) !=
        Abandonable::Outcome::kDone) {
      throw PeerError(
          fmt::format("the store at {} did not answer within {} s: its host is stopped or "
                      "cannot be reached",
                      address_.text(), limit_.count()));
    }
    if (!result->error.empty()) {
      throw PeerError(fmt::format("the store at {} is gone: its host has ended ({})",
                                  address_.text(), result->error));
    }
    return std::move(result->value);
  }

  const Address address_;
  const c10::intrusive_ptr<c10d::Store> store_;
  const Seconds limit_;  // for one call
  std::stop_source abandoned_;
  const std::stop_callback<std::function<void()>> with_first_;
  Abandonable calls_{"daso store"};
};

}  // namespace

Store Store::host(FileDescriptor listening) {
  const Address address = bound_address(listening);
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listening.release();
  auto store = c10::make_intrusive<c10d::TCPStore>(address.host, options);
  return Store(std::make_shared<TcpTable>(address, std::move(store), kHostLimit));
}

Store Store::connect(const Address& address, Seconds limit, Seconds per_call) {
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.waitWorkers = false;
  options.timeout = whole_milliseconds(limit);
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(address.host, options);
    return Store(std::make_shared<TcpTable>(address, std::move(store), per_call));
  } catch (const std::exception& error) {
    // Until now it may have become known: pods begin before their names do.
    if (!is_known(address.host)) {
      throw PeerError(fmt::format("host '{}' of the rendezvous {} is unknown here, after {} s too",
                                  address.host, address.text(), limit.count()));
    }
    throw PeerError(
        fmt::format("nobody answers at the rendezvous {} within {} s; is the launcher or "
                    "rank 0 running there, and may this machine connect to that port? ({})",
                    address.text(), limit.count(), first_line(error.what())));
  }
}

c10::intrusive_ptr<c10d::Store> c10d_store(const Store& store) {
  const auto* table = dynamic_cast<const TcpTable*>(store.table().get());
  DASO_ASSERT(table != nullptr);
  return c10::make_intrusive<c10d::PrefixStore>(store.prefix() + "c10d", table->c10d());
}

}  // namespace daso
