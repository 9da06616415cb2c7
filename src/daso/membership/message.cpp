// SPDX-License-Identifier: Apache-2.0
#include "daso/membership/message.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <utility>

namespace daso::membership {
namespace {

constexpr std::uint8_t kFormat = 2;
constexpr std::size_t kMostSettled = 2 * static_cast<std::size_t>(kMostInFlight);

class Writer {
 public:
  void put(bool value) { put(static_cast<std::uint8_t>(value)); }
  template <std::integral Number>
  void put(Number value) {
    auto rest = static_cast<std::make_unsigned_t<Number>>(value);
    for (std::size_t i = 0; i < sizeof value; ++i) {
      bytes_.push_back(static_cast<std::byte>(rest & 0xff));
      if constexpr (sizeof value > 1) rest = static_cast<decltype(rest)>(rest >> 8);
    }
  }
  template <typename Value>
  void put(const std::optional<Value>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename Value>
  void put(const std::vector<Value>& values) {
    put(static_cast<std::uint32_t>(values.size()));
    for (const Value& value : values) put(value);
  }
  void put(const Member& member) { put_all(member.node, member.incarnation); }
  void put(const Ballot& ballot) { put_all(ballot.round, ballot.node); }
  void put(const Settled& settled) { put_all(settled.exchange, settled.committed); }
  void put(const BlockingStep& blocking) { put_all(blocking.step, blocking.node); }
  void put(const Progress& progress) { put_all(progress.next, progress.committed, progress.held); }
  void put(const Report& report) {
    put_all(report.progress, report.step, report.leaving, report.candidates, report.dead);
  }
  void put(const View& view) {
    put_all(view.number, view.members, view.first_exchange, view.settled, view.blocking,
            view.joined);
  }
  void put(const AcceptedView& accepted) { put_all(accepted.ballot, accepted.view); }
  void put(const Pulse& pulse) { put_all(pulse.progress, pulse.leaving, pulse.candidates); }
  void put(const Prepare& prepare) { put(prepare.ballot); }
  void put(const Promise& promise) { put_all(promise.ballot, promise.report, promise.accepted); }
  void put(const Reject& reject) { put_all(reject.ballot, reject.promised); }
  void put(const Accept& accept) { put_all(accept.ballot, accept.view); }
  void put(const Accepted& accepted) { put(accepted.ballot); }
  void put(const Decided& decided) { put(decided.view); }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    for (const char letter : text) put(static_cast<std::uint8_t>(letter));
  }
  void put(const Join& join) { put_all(join.ready, join.copy_to); }
  void put(const NoCopy& /*all is said*/) {}

  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <typename... Values>
  void put_all(const Values&... values) {
    (put(values), ...);
  }
  std::vector<std::byte> bytes_;
};

// Every get() says whether what it read is well-formed; after the first false nothing counts.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
  bool at_end() const { return rest_.empty(); }

  bool get(bool& value) {
    std::uint8_t byte = 0;
    if (!get(byte) || byte > 1) return false;
    value = byte == 1;
    return true;
  }
  template <std::integral Number>
  bool get(Number& value) {
    if (rest_.size() < sizeof value) return false;
    std::uint64_t read = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) {
      read |= std::to_integer<std::uint64_t>(rest_[i]) << (8 * i);
    }
    value = static_cast<Number>(read);
    rest_ = rest_.subspan(sizeof value);
    return true;
  }
  template <typename Value>
  bool get(std::optional<Value>& value) {
    bool there = false;
    if (!get(there)) return false;
    return !there || get(value.emplace());
  }
  // Lists that ascend by `key`.
  template <typename Value, typename Key = std::identity>
  bool get(std::vector<Value>& values, std::size_t most, Key key = {}) {
    std::uint32_t count = 0;
    if (!get(count) || count > most || count > rest_.size()) return false;
    values.resize(count);
    for (Value& value : values) {
      if (!get(value)) return false;
    }
    return std::ranges::adjacent_find(values, std::ranges::greater_equal{}, key) == values.end();
  }
  bool get(Member& member) { return get_all(member.node, member.incarnation); }
  bool get(Ballot& ballot) { return get_all(ballot.round, ballot.node); }
  bool get(Settled& settled) { return get_all(settled.exchange, settled.committed); }
  bool get(BlockingStep& blocking) { return get_all(blocking.step, blocking.node); }
  bool get(Progress& progress) {
    if (!get_all(progress.next, progress.committed)) return false;
    if (progress.committed < 0 || progress.next < progress.committed) return false;
    const ExchangeNumber in_flight = progress.next - progress.committed;
    const auto& held = progress.held;
    return in_flight <= kMostInFlight &&
           get(progress.held, static_cast<std::size_t>(kMostInFlight)) &&
           (held.empty() || (held.front() >= progress.committed && held.back() < progress.next));
  }
  bool get(Report& report) {
    return get_all(report.progress, report.step, report.leaving) &&
           get(report.candidates, kMostMembers) && get(report.dead, kMostMembers);
  }
  bool get(View& view) {
    return get(view.number) && get(view.members, kMostMembers, &Member::node) &&
           get(view.first_exchange) && get(view.settled, kMostSettled, &Settled::exchange) &&
           get(view.blocking) && get(view.joined, kMostMembers, &Member::node);
  }
  bool get(AcceptedView& accepted) { return get_all(accepted.ballot, accepted.view); }
  bool get(Pulse& pulse) {
    return get_all(pulse.progress, pulse.leaving) && get(pulse.candidates, kMostMembers);
  }
  bool get(Prepare& prepare) { return get(prepare.ballot); }
  bool get(Promise& promise) { return get_all(promise.ballot, promise.report, promise.accepted); }
  bool get(Reject& reject) { return get_all(reject.ballot, reject.promised); }
  bool get(Accept& accept) { return get_all(accept.ballot, accept.view); }
  bool get(Accepted& accepted) { return get(accepted.ballot); }
  bool get(Decided& decided) { return get(decided.view); }
  bool get(std::string& text) {
    std::uint32_t count = 0;
    if (!get(count) || count > kMostTextBytes || count > rest_.size()) return false;
    for (const std::byte letter : rest_.first(count)) text += std::to_integer<char>(letter);
    rest_ = rest_.subspan(count);
    return true;
  }
  bool get(Join& join) { return get_all(join.ready, join.copy_to); }
  bool get(NoCopy& /*all is said*/) { return true; }

 private:
  template <typename... Values>
  bool get_all(Values&... values) {
    return (get(values) && ...);
  }
  std::span<const std::byte> rest_;
};

template <std::size_t... kinds>
bool get_body(Reader& reader, std::size_t kind, Body& body, std::index_sequence<kinds...> /*all*/) {
  return ((kind == kinds && reader.get(body.emplace<kinds>())) || ...);
}

}  // namespace

std::string_view name_of(const Body& body) {
  constexpr std::array<std::string_view, std::variant_size_v<Body>> kNames = {
      "pulse", "prepare", "promise", "reject", "accept", "accepted", "decided", "join", "no copy"};
  return kNames[body.index()];
}

std::vector<std::byte> encode(const Message& message) {
  Writer writer;
  writer.put(kFormat);
  writer.put(static_cast<std::uint8_t>(message.body.index()));
  writer.put(message.from);
  writer.put(message.view);
  std::visit([&](const auto& body) { writer.put(body); }, message.body);
  return writer.take();
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  if (bytes.size() > kMostMessageBytes) return std::nullopt;
  Reader reader(bytes);
  std::uint8_t format = 0;
  std::uint8_t kind = 0;
  std::optional<Message> message(std::in_place);
  if (!reader.get(format) || format != kFormat || !reader.get(kind) || !reader.get(message->from) ||
      !reader.get(message->view) ||
      !get_body(reader, kind, message->body,
                std::make_index_sequence<std::variant_size_v<Body>>()) ||
      !reader.at_end()) {
    return std::nullopt;
  }
  return message;
}

}  // namespace daso::membership
