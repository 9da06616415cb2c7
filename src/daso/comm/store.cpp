// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/store.h"

#include <c10/util/Logging.h>

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "daso/base/error.h"

namespace daso {
namespace {

// A call on a TCPStore whose host is stopped or cut off blocks without a limit. So calls run on a
// thread of their own, and the caller waits for it with one.
class Caller {
 public:
  Caller() : shared_(std::make_shared<Shared>()), thread_([shared = shared_] { serve(*shared); }) {}
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() {
    const std::unique_lock lock(shared_->mutex);
    shared_->stop = true;
    shared_->changed.notify_all();
    thread_.detach();  // ends at once, or when the stuck call does; it shares what it needs
  }

  // Runs the task on the thread; false if it did not end within the limit. After that the thread is
  // stuck, and every further call fails at once.
  bool run(std::function<void()> task, Seconds limit) {
    std::unique_lock lock(shared_->mutex);
    const Deadline deadline(limit);
    const auto idle = [this] { return !shared_->task; };
    if (shared_->stuck || !shared_->changed.wait_until(lock, deadline.when(), idle)) return false;
    shared_->task = std::move(task);
    const std::uint64_t ticket = ++shared_->begun;
    shared_->changed.notify_all();
    const auto done = [this, ticket] { return shared_->ended >= ticket; };
    shared_->stuck = !shared_->changed.wait_until(lock, deadline.when(), done);
    return !shared_->stuck;
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> task;
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;
    bool stop = false;
    bool stuck = false;
  };

  static void serve(Shared& shared) {
    std::unique_lock lock(shared.mutex);
    while (true) {
      shared.changed.wait(lock, [&] { return shared.stop || shared.task; });
      if (shared.stop) return;
      const std::function<void()> task = shared.task;
      lock.unlock();
      task();
      lock.lock();
      shared.task = nullptr;
      ++shared.ended;
      shared.changed.notify_all();
    }
  }

  std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

constexpr Seconds kHostLimit{60};  // the host's own calls stay inside its process

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// The first line of a LibTorch error; the rest is a stack.
std::string first_line(const char* what) {
  const std::string text = what;
  return text.substr(0, text.find('\n'));
}

// LibTorch writes a stack trace for every connection that fails. We say the same in one line, so it
// is to be silent unless the user asked it to speak.
void quiet_torch() {
  static std::once_flag once;  // ranks may be threads
  std::call_once(once, [] {
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  });
}

}  // namespace

struct Store::Table {
  Table(Address at, c10::intrusive_ptr<c10d::Store> connection, Seconds per_call)
      : address(std::move(at)), store(std::move(connection)), limit(per_call) {}
  const Address address;
  const c10::intrusive_ptr<c10d::Store> store;
  const Seconds limit;  // for one call
  Caller caller;
};

Store::Store(std::shared_ptr<Table> table, std::string prefix)
    : table_(std::move(table)), prefix_(std::move(prefix)) {}

template <typename Call>
auto Store::reach(Call call) const {
  // Shared with the calling thread: when the limit passes, that thread may still write its result.
  struct Result {
    decltype(call(std::declval<c10d::Store&>())) value{};
    std::string error;
  };
  const auto result = std::make_shared<Result>();
  const bool in_time = table_->caller.run(
      [result, call = std::move(call), store = table_->store] {
        try {
          result->value = call(*store);
        } catch (const std::exception& error) {
          result->error = first_line(error.what());
          if (result->error.empty()) result->error = "unknown error";
        }
      },
      table_->limit);
  if (!in_time) {
    throw PeerError(
        fmt::format("the store at {} did not answer within {} s: its host is stopped or "
                    "cannot be reached",
                    address().text(), table_->limit.count()));
  }
  if (!result->error.empty()) {
    throw PeerError(fmt::format("the store at {} is gone: its host has ended ({})",
                                address().text(), result->error));
  }
  return std::move(result->value);
}

Store Store::host(FileDescriptor listening) {
  quiet_torch();
  const Address address = bound_address(listening);
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listening.release();
  auto store = c10::make_intrusive<c10d::TCPStore>(address.host, options);
  return {std::make_shared<Table>(address, std::move(store), kHostLimit), ""};
}

Store Store::connect(const Address& address, Seconds limit, Seconds per_call) {
  quiet_torch();
  c10d::TCPStoreOptions options;
  options.port = address.port;
  options.waitWorkers = false;
  options.timeout = whole_milliseconds(limit);
  try {
    auto store = c10::make_intrusive<c10d::TCPStore>(address.host, options);
    return {std::make_shared<Table>(address, std::move(store), per_call), ""};
  } catch (const std::exception& error) {
    throw PeerError(
        fmt::format("nobody answers at the rendezvous {} within {} s; is the launcher or "
                    "rank 0 running there, and may this machine connect to that port? ({})",
                    address.text(), limit.count(), first_line(error.what())));
  }
}

const Address& Store::address() const { return table_->address; }

void Store::set(const std::string& key, const std::string& value) const {
  reach([key = prefix_ + key, value](c10d::Store& store) {
    store.set(key, bytes_of(value));
    return true;
  });
}

std::string Store::set_once(const std::string& key, const std::string& value) const {
  DASO_ASSERT(!value.empty());  // to a TCPStore the empty value means "not set"
  return reach([key = prefix_ + key, value](c10d::Store& store) {
    return text_of(store.compareSet(key, bytes_of(""), bytes_of(value)));
  });
}

std::optional<std::string> Store::find(const std::string& key) const {
  return reach([key = prefix_ + key](c10d::Store& store) -> std::optional<std::string> {
    if (!store.check({key})) return std::nullopt;
    return text_of(store.get(key));
  });
}

std::int64_t Store::add(const std::string& key, std::int64_t amount) const {
  return reach(
      [key = prefix_ + key, amount](c10d::Store& store) { return store.add(key, amount); });
}

void Store::append(const std::string& key, const std::string& value) const {
  reach([key = prefix_ + key, value](c10d::Store& store) {
    store.append(key, bytes_of(value));
    return true;
  });
}

void Store::erase(const std::string& key) const {
  reach([key = prefix_ + key](c10d::Store& store) { return store.deleteKey(key); });
}

Store Store::under(const std::string& prefix) const { return {table_, prefix_ + prefix + "/"}; }

Store Store::second_connection() const {
  auto store = reach([](c10d::Store& first) { return first.clone(); });
  return {std::make_shared<Table>(table_->address, std::move(store), table_->limit), prefix_};
}

c10::intrusive_ptr<c10d::Store> Store::c10d() const {
  return c10::make_intrusive<c10d::PrefixStore>(prefix_ + "c10d", table_->store);
}

}  // namespace daso
