// SPDX-License-Identifier: Apache-2.0
#include "daso/run/views/copy_sender.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <future>

#include "daso/base/error.h"
#include "daso/base/thread_name.h"
#include "daso/comm/tcp/mailbox.h"
#include "daso/run/views/copy_letters.h"

namespace daso {
namespace {

constexpr Seconds kForConnection{10};  // the joiner listens already

std::size_t bytes_of(const State& state) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : state) bytes += tensor.nbytes();
  return bytes;
}

void for_each_piece(const at::Tensor& tensor,
                    const std::function<void(std::span<const std::byte>)>& act) {
  const at::Tensor whole = tensor.contiguous();
  const auto* const begin = static_cast<const std::byte*>(whole.const_data_ptr());
  for (std::size_t at = 0; at < whole.nbytes(); at += kCopyPiece) {
    act({begin + at, std::min(kCopyPiece, whole.nbytes() - at)});
  }
}

}  // namespace

CopySender::CopySender(const std::string& place, const std::string& key, Seconds limit,
                       const ExchangeOptions& exchange, State state)
    : place_(place),
      key_(key),
      limit_(limit),
      exchange_(exchange),
      state_(std::move(state)),
      bytes_(bytes_of(state_)),
      thread_([this](const std::stop_token& stop) { work(stop); }) {
  name_thread(thread_.native_handle(), "copy");
}

CopySender::~CopySender() {
  thread_.request_stop();
  const std::lock_guard lock(mutex_);
  if (mailbox_) mailbox_->abort();
}

void CopySender::add(const at::Tensor& answer) {
  {
    const std::lock_guard lock(mutex_);
    if (!holds_) return;
    ++added_;
    waiting_ += answer.nbytes();
    answers_.push_back(answer);
    // A joiner that is further behind than a copy is large had better begin with another one.
    holds_ = waiting_ <= std::max(bytes_, answer.nbytes());
  }
  changed_.notify_all();
}

std::int64_t CopySender::hurry() {
  const std::lock_guard lock(mutex_);
  hurries_ = true;
  changed_.notify_all();
  return added_;
}

bool CopySender::holds() const {
  const std::lock_guard lock(mutex_);
  return holds_;
}

void CopySender::work(const std::stop_token& stop) {
  try {
    send_all(stop);
  } catch (const std::exception&) {
    // The joiner asks for another copy, or enters without.
    const std::lock_guard lock(mutex_);
    holds_ = false;
    if (mailbox_) mailbox_->abort();
  }
}

void CopySender::send_all(const std::stop_token& stop) {
  const CopyPlace place = parse_copy_place(place_);
  {
    const std::lock_guard lock(mutex_);
    if (stop.stop_requested()) return;
    mailbox_ = std::make_unique<tcp::Mailbox>(tcp::MailboxOptions{.rank = kCopySender,
                                                                  .view = place.number,
                                                                  .key = key_,
                                                                  .listening = {},
                                                                  .limits = {.silence = limit_}});
  }
  mailbox_->connect({{kCopyReceiver, place.address}}, std::min(limit_, kForConnection));
  const std::string index = index_of(state_, exchange_);
  send(std::as_bytes(std::span(index)));
  for (const auto& [name, tensor] : state_) {
    for_each_piece(tensor, [&](std::span<const std::byte> piece) {
      const Clock::time_point begun = Clock::now();
      send(piece);
      pause(since(begun), stop);
    });
  }
  state_.clear();
  send({});
  while (const std::optional<at::Tensor> answer = next_answer(stop)) {
    for_each_piece(*answer, [&](std::span<const std::byte> piece) { send(piece); });
  }
}

// Returns when the other end has it. A mailbox that hears nothing gives up at the limit.
void CopySender::send(std::span<const std::byte> piece) {
  const auto sent = std::make_shared<std::promise<void>>();
  std::future<void> done = sent->get_future();
  mailbox_->post(kCopyReceiver, {.tag = {.group = kCopyLetters, .number = letters_++},
                                 .bytes = piece,
                                 .done = [sent](const std::exception_ptr& error) {
                                   if (error) sent->set_exception(error);
                                   if (!error) sent->set_value();
                                 }});
  done.get();
}

void CopySender::pause(Seconds length, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, stop, length, [this] { return hurries_; });
  if (stop.stop_requested() || !holds_) throw PeerError("the copy is of no use any more");
}

// None: there will be none.
std::optional<at::Tensor> CopySender::next_answer(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, stop, [this] { return !answers_.empty(); })) return {};
  if (!holds_) throw PeerError("a joiner does not keep up");
  const at::Tensor answer = answers_.front();
  answers_.pop_front();
  waiting_ -= answer.nbytes();
  return answer;
}

}  // namespace daso
