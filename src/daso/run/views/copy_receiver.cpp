// SPDX-License-Identifier: Apache-2.0
#include "daso/run/views/copy_receiver.h"

#include <ATen/ATen.h>
#include <sys/random.h>

#include <algorithm>

#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/base/thread_name.h"
#include "daso/comm/tcp/mailbox.h"
#include "daso/exchange/outer_rule.h"
#include "daso/kernels/wire.h"
#include "daso/run/views/copy_letters.h"
#include "daso/strategy/strategy.h"

namespace daso {
namespace {

// Agreements and lost donors make a copy useless. Who has had no luck so often enters without.
constexpr int kTries = 3;
// The others may train for long without one. That they are gone is heard before.
constexpr Seconds kBetweenExchanges{1e6};

Ports ports_of(const WorldOptions& options) {
  return options.ports.any() ? options.place.ports : options.ports;
}

// The ranks of this machine need one each for their world.
bool has_spare_port(const WorldOptions& options) {
  const Ports ports = ports_of(options);
  const Environment environment = this_environment();
  const bool alone = is_loopback(options.place.rendezvous->host);  // no other machine meets there
  const int ranks =
      find_integer(environment, alone ? "WORLD_SIZE" : "LOCAL_WORLD_SIZE").value_or(1);
  return ports.any() || ports.last - ports.first >= ranks;
}

}  // namespace

std::unique_ptr<CopyReceiver> CopyReceiver::open(const Worlds& worlds, const Settings& settings) {
  const std::shared_ptr<ViewSource>& source = worlds.source();
  const Place& place = worlds.options().place;
  if (!source || !source->joins() || place.local_rank.value_or(0) != 0 || !place.rendezvous ||
      !traits_of(settings.strategy).merges_late || !has_spare_port(worlds.options())) {
    return nullptr;
  }
  try {
    return std::make_unique<CopyReceiver>(source, worlds.options());
  } catch (const ConfigError&) {
    return nullptr;  // no port is free: it enters without
  }
}

CopyReceiver::CopyReceiver(std::shared_ptr<ViewSource> source, WorldOptions options)
    : source_(std::move(source)), options_(std::move(options)) {
  // Before this rank asks for a view: its launcher has to know by then.
  open_mailbox();
  source_->ask_copy(place_);
  thread_ = std::jthread([this] { work(); });
  name_thread(thread_.native_handle(), "copy");
}

CopyReceiver::~CopyReceiver() {
  const std::lock_guard lock(mutex_);
  stops_ = true;
  mailbox_->abort();
}

std::string CopyReceiver::place() const {
  const std::lock_guard lock(mutex_);
  return here_ ? place_ : "";
}

State CopyReceiver::take(std::int64_t answers, Seconds limit) {
  std::unique_lock lock(mutex_);
  const Deadline deadline(limit);
  changed_.wait_until(lock, deadline.when(), [&] { return !here_ || answers_ >= answers; });
  if (!here_ || answers_ != answers) {
    throw PeerError(
        fmt::format("the copy that this node was given has come no further than {} of "
                    "{} exchanges",
                    answers_, answers));
  }
  here_ = false;
  return std::exchange(state_, {});
}

bool CopyReceiver::open_mailbox() {
  CopyPlace place;
  DASO_ASSERT(::getrandom(&place.number, sizeof place.number, 0) == sizeof place.number);
  // As ranks of a world do (world.cpp).
  const Place& own = options_.place;
  const std::string host = options_.interface.empty() ? own_address_towards(own.rendezvous->host)
                                                      : address_of_device(options_.interface);
  FileDescriptor listening = listen_on(host, ports_of(options_));
  place.address = bound_address(listening);
  auto mailbox =
      std::make_unique<tcp::Mailbox>(tcp::MailboxOptions{.rank = kCopyReceiver,
                                                         .view = place.number,
                                                         .key = own.job_token,
                                                         .listening = std::move(listening),
                                                         .limits = {.silence = options_.limit}});
  const std::lock_guard lock(mutex_);
  if (stops_) return false;
  mailbox_ = std::move(mailbox);
  place_ = place.text();
  return true;
}

void CopyReceiver::work() {
  for (int tries = 0; tries < kTries && !has_caught_up_; ++tries) {
    try {
      if (tries > 0) {
        if (!open_mailbox()) return;
        source_->ask_copy(place_);
      }
      const at::Tensor anchor = receive_copy();
      source_->caught_up();
      has_caught_up_ = true;
      for (;;) receive_answer(anchor);
    } catch (const std::exception&) {
      const std::lock_guard lock(mutex_);
      here_ = false;
      state_.clear();
      changed_.notify_all();
    }
  }
  if (!has_caught_up_) source_->caught_up();
}

at::Tensor CopyReceiver::receive_copy() {
  mailbox_->connect({{kCopySender, {}}}, options_.limit);
  const std::vector<std::byte> index = mailbox_->receive(kCopyLetters, options_.limit).bytes;
  const CopyRoom room = room_for({reinterpret_cast<const char*>(index.data()), index.size()});
  exchange_ = room.exchange;
  State state;
  for (const auto& [name, tensor] : room.tensors) {
    receive_into(tensor, options_.limit);
    state[name] = tensor;
  }
  require(mailbox_->receive(kCopyLetters, options_.limit).bytes.empty(), "a copy is too long");
  const at::Tensor anchor = state.at(kAnchorOfCopy);
  const std::lock_guard lock(mutex_);
  state_ = std::move(state);
  answers_ = 0;
  here_ = true;
  return anchor;
}

void CopyReceiver::receive_answer(const at::Tensor& anchor) {
  const auto block = static_cast<std::int64_t>(encoded_bytes(exchange_.wire, kBlockElements));
  const at::Tensor answer = at::empty({anchor.size(0), block}, at::kChar);
  receive_into(answer, kBetweenExchanges);
  const std::lock_guard lock(mutex_);
  if (!here_) throw PeerError("the copy was taken");
  follow(exchange_, anchor, answer);
  ++answers_;
  changed_.notify_all();
}

void CopyReceiver::receive_into(const at::Tensor& tensor, Seconds limit) {
  auto* to = static_cast<std::byte*>(tensor.mutable_data_ptr());
  for (std::size_t left = tensor.nbytes(); left > 0;) {
    const std::vector<std::byte> piece = mailbox_->receive(kCopyLetters, limit).bytes;
    require(!piece.empty() && piece.size() <= left, "a piece of a copy has {} bytes", piece.size());
    to = std::ranges::copy(piece, to).out;
    left -= piece.size();
  }
}

}  // namespace daso
