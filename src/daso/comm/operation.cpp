// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/operation.h"

#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "daso/base/error.h"
#include "daso/base/text.h"

namespace daso {
namespace {

std::string reason_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    const std::string text = known.what();
    return text.substr(0, text.find('\n'));
  } catch (...) {
    return "unknown error";
  }
}

// Everybody answers, so nobody is lost: who is behind?
std::string laggards(const Call& call, const Failure& failure) {
  std::vector<std::string> behind;
  for (const auto& [rank, groups] : failure.begun) {
    const auto begun = groups.find(call.group);
    if (begun == groups.end() || begun->second > call.number) continue;
    behind.push_back(fmt::format("rank {} (at #{})", rank, begun->second));
  }
  if (behind.empty()) return "";
  return fmt::format("; not there yet, though alive: {}", join(behind, ", "));
}

}  // namespace

std::string Call::text() const { return fmt::format("{} #{} in group '{}'", what, number, group); }

void throw_failure(const Call& call, const Failure& failure) {
  if (failure.kind == Failure::Kind::kConfig) throw ConfigError(failure.text);
  const bool counted = failure.missing.empty() && !call.message;
  const std::string late = counted ? laggards(call, failure) : "";
  throw PeerError(fmt::format("{}: {}{}", call.text(), failure.text, late));
}

void compare_calls(const Comparison& comparison, const Call& call, const Guard& guard) {
  using nlohmann::json;
  const Store& store = comparison.store;
  const json own = {{"what", call.what}, {"rank", comparison.rank}};
  const json first = json::parse(store.set_once(comparison.key, own.dump()));
  if (first.at("what") != own.at("what")) {
    const Failure mismatch{
        .kind = Failure::Kind::kConfig,
        .text = fmt::format("operation #{} in group '{}' differs between ranks: rank {} calls {}, "
                            "rank {} calls {}; all ranks of a group must call the same operations "
                            "in the same order",
                            call.number, call.group, first.at("rank").get<int>(),
                            first.at("what").get<std::string>(), comparison.rank, call.what)};
    throw_failure(call, guard.lookout->spread(mismatch));
  }
  if (store.add(comparison.key + "/seen", 1) == comparison.callers) {
    store.erase(comparison.key);
    store.erase(comparison.key + "/seen");
  }
}

void BackendOperation::follow() {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  try {
    future = work->getFuture();
  } catch (const c10::Error&) {
    return;
  }
  if (!future) return;
  end = std::make_shared<End>();
  future->addCallback([end = end, alarm = guard.alarm](c10::ivalue::Future& done) {
    alarm->change([&] {
      end->reached = true;
      if (done.hasError()) end->error = done.exception_ptr();
    });
  });
}

bool BackendOperation::done() {
  if (!work) return true;
  if (!end) return work->isCompleted();
  const Deadline now(Seconds(0));
  return guard.alarm->wait([this] { return end->reached; }, now) != Alarm::Outcome::kLate;
}

at::Tensor BackendOperation::wait(Seconds limit) {
  if (!work) return std::move(result);
  if (const std::exception_ptr error = end ? wait_for_end(limit) : wait_inside(limit)) {
    // The backend knows that something broke, seldom who did it.
    throw_failure(call, guard.lookout->ring(fmt::format("failed ({})", reason_of(error))));
  }
  if (finish) finish();
  return std::move(result);
}

std::exception_ptr BackendOperation::wait_for_end(Seconds limit) {
  switch (guard.alarm->wait([this] { return end->reached; }, Deadline(limit))) {
    case Alarm::Outcome::kDone:
      return end->error;
    case Alarm::Outcome::kRaised:
      throw_failure(call, *guard.alarm->raised());
    case Alarm::Outcome::kLate:
      break;
  }
  return std::make_exception_ptr(PeerError(fmt::format("not done within {} s", limit.count())));
}

std::exception_ptr BackendOperation::wait_inside(Seconds limit) {
  const std::int64_t ticket = guard.alarm->on_raise([work = work](const Failure&) { work->abort(); });
  std::exception_ptr error;
  bool whole = false;
  try {
    whole = work->wait(whole_milliseconds(limit));
  } catch (...) {
    error = std::current_exception();
  }
  guard.alarm->forget(ticket);
  if (whole) return nullptr;
  if (const auto failure = guard.alarm->raised()) throw_failure(call, *failure);
  return error ? error : std::make_exception_ptr(PeerError("aborted"));
}

Pending::Pending(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;
Pending::~Pending() = default;

bool Pending::done() const {
  DASO_ASSERT(operation_ != nullptr);  // waited for already
  return operation_->done();
}

at::Tensor Pending::wait(Seconds limit) && {
  DASO_ASSERT(operation_ != nullptr);  // waited for already
  const std::unique_ptr<Operation> operation = std::move(operation_);
  return operation->wait(limit);
}

}  // namespace daso
