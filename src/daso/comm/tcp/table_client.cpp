// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/tcp/table_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "daso/base/error.h"
#include "daso/base/while_waiting.h"
#include "daso/comm/tcp/caller.h"
#include "daso/comm/tcp/connection.h"

namespace daso::tcp {
namespace {

constexpr Seconds kLastWords{0.1};  // for an answer that is on its way when a table is abandoned
constexpr Seconds kBetweenCalls{0.02};

// This connection is of no use any more; another one may be.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Nobody listens there.
struct Refused : Broken {
  using Broken::Broken;
};

std::uint64_t drawn() {
  std::uint64_t number = 0;
  while (number == 0) {  // the host's
    DASO_ASSERT(::getrandom(&number, sizeof number, 0) == sizeof number);
  }
  return number;
}

}  // namespace

TableClient::TableClient(Address address, std::string key, Seconds limit, Seconds per_call,
                         const std::optional<std::stop_token>& first)
    : address_(std::move(address)),
      key_(std::move(key)),
      per_call_(per_call),
      client_(drawn()),
      bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      with_first_(first.value_or(std::stop_token()), [this] { abandon(); }) {
  const Deadline deadline(limit);
  std::string problem;
  while (!socket_.open()) {
    try {
      connect(deadline);
    } catch (const Broken& error) {
      problem = error.what();
      if (first && dynamic_cast<const Refused*>(&error) != nullptr) {
        throw PeerError(fmt::format("the store at {} is gone: its host has ended ({})",
                                    address_.text(), problem));
      }
      if (abandoned_.stop_requested()) {
        throw PeerError(fmt::format("the store at {} has not answered before it was abandoned",
                                    address_.text()));
      }
      if (deadline.passed()) {
        throw PeerError(fmt::format(
            "nobody answers at the rendezvous {} within {} s; is the launcher running there, and "
            "may this machine connect to that port? ({})",
            address_.text(), limit.count(), problem));
      }
      std::this_thread::sleep_for(kBetweenCalls);
      WhileWaiting::look();
    }
  }
}

std::shared_ptr<StoreTable> TableClient::second_connection() {
  return std::make_shared<TableClient>(address_, key_, per_call_, per_call_,
                                       abandoned_.get_token());
}

void TableClient::abandon() {
  abandoned_.request_stop();
  const std::uint64_t one = 1;
  static_cast<void>(!::write(bell_.get(), &one, sizeof one));
}

void TableClient::throw_silent() const {
  throw PeerError(
      fmt::format("the store at {} did not answer within {} s: its host is stopped or cannot be "
                  "reached",
                  address_.text(), per_call_.count()));
}

TableAnswer TableClient::ask(TableQuestion question) {
  const std::lock_guard lock(mutex_);
  question.client = client_;
  question.number = ++asked_;
  Deadline deadline(late_ ? Seconds(0) : per_call_);
  for (bool again = false;; again = true) {
    try {
      if (!socket_.open()) connect(deadline);
      return answer_to(question, deadline);
    } catch (const Refused& refused) {
      throw PeerError(fmt::format("the store at {} is gone: its host has ended ({})",
                                  address_.text(), refused.what()));
    } catch (const Broken&) {
      socket_.close();
      if (deadline.passed() || abandoned_.stop_requested()) throw_silent();
      // At once where something was damaged; less often where nobody can be reached.
      if (again) std::this_thread::sleep_for(kBetweenCalls);
    }
  }
}

TableAnswer TableClient::answer_to(const TableQuestion& question, Deadline& deadline) {
  try {
    while (late_) {
      if (receive(deadline).number != *late_) continue;
      late_.reset();
      deadline = Deadline(per_call_);  // it answers again
    }
    send(framed_letter({}, encode(question)), deadline);
    for (;;) {
      TableAnswer answer = receive(deadline);
      if (answer.number == question.number) return answer;
    }
  } catch (const PeerError&) {
    if (!late_) late_ = question.number;
    throw;
  }
}

void TableClient::connect(const Deadline& deadline) {
  reader_ = {};
  late_.reset();
  Caller caller = Caller::dial(address_, Handshake::dial(key_, {.service = Service::kTable}),
                               std::min(kForTableProof, deadline.left()));
  const int descriptor = caller.descriptor();
  Caller::State state = Caller::State::kGoesOn;
  while ((state = caller.advance()) == Caller::State::kGoesOn) {
    pollfd polled{descriptor, static_cast<short>(caller.wants_to_write() ? POLLIN | POLLOUT : POLLIN),
                  0};
    ::poll(&polled, 1, static_cast<int>(whole_milliseconds(kBetweenCalls).count()));
    if (abandoned_.stop_requested()) throw Broken("it is abandoned");
    WhileWaiting::look();
  }
  if (state == Caller::State::kFailed) {
    if (caller.problem() == std::strerror(ECONNREFUSED)) throw Refused(caller.problem());
    throw Broken(caller.problem());
  }
  const int yes = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  send_again_soon(descriptor);
  socket_ = caller.take_socket();
}

void TableClient::send(std::span<const std::byte> bytes, Deadline& deadline) {
  while (!bytes.empty()) {
    const std::ptrdiff_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      wait(POLLOUT, deadline);
    } else if (errno != EINTR) {
      throw Broken(std::strerror(errno));
    }
  }
}

TableAnswer TableClient::receive(Deadline& deadline) {
  for (;;) {
    try {
      if (const auto frame = reader_.next(kMostTableBytes)) {
        if (const auto answer = decode_answer(frame->letter)) return *answer;
        throw Broken("an answer of nobody's");
      }
    } catch (const PeerError& damaged) {
      throw Broken(damaged.what());
    }
    std::array<std::byte, 16 << 10> bytes;  // NOLINT(*-member-init): filled by what comes
    const std::ptrdiff_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      reader_.add(std::span(bytes).first(static_cast<std::size_t>(got)));
    } else if (got == 0) {
      throw Broken("it has closed the connection");
    } else if (errno == EAGAIN) {
      wait(POLLIN, deadline);
    } else if (errno != EINTR) {
      throw Broken(std::strerror(errno));
    }
  }
}

void TableClient::wait(short events, Deadline& deadline) {
  const bool abandoned = abandoned_.stop_requested();
  if (abandoned && deadline.left() > kLastWords) deadline = Deadline(kLastWords);
  if (deadline.passed()) throw_silent();
  const Seconds left(WhileWaiting::pause(deadline.when()) - Clock::now());
  // Once it has rung the bell would end every wait at once.
  std::array<pollfd, 2> polled = {{{socket_.get(), events, 0}, {bell_.get(), POLLIN, 0}}};
  ::poll(polled.data(), abandoned ? 1 : 2,
         static_cast<int>(whole_milliseconds(std::max(Seconds(0), left)).count()));
  WhileWaiting::look();
}

}  // namespace daso::tcp

namespace daso {

Store Store::connect_as_member(const Address& address, const std::string& key, Seconds limit,
                               Seconds per_call) {
  return Store(std::make_shared<tcp::TableClient>(address, key, limit, per_call));
}

}  // namespace daso
