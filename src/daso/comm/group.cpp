// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/group.h"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "daso/base/error.h"

namespace daso {

Group::Group(GroupOptions options, c10::intrusive_ptr<c10d::Backend> backend, Guard guard)
    : options_(std::move(options)), backend_(std::move(backend)), guard_(std::move(guard)) {}

Group::~Group() = default;

void Group::leak() { static_cast<void>(backend_.release()); }

Pending Group::done(at::Tensor result) {
  auto operation = std::make_unique<BackendOperation>();
  operation->result = std::move(result);
  return Pending(std::move(operation));
}

Pending Group::start(const Describe& what, at::Tensor result, const Start& call,
                     std::function<void()> finish) {
  if (size() == 1) return done(std::move(result));
  const std::int64_t number = begun_++;
  const Call named{.what = what(), .group = name(), .number = number};
  refuse_if_broken(named);
  if (is_checked(number)) compare(named, fmt::format("{}", number), size());
  return launch(named, std::move(result), call, std::move(finish));
}

Pending Group::pass(const Message& message, at::Tensor tensor) {
  const std::int64_t number = passed_[{message.from, message.to}]++;
  const Call named{
      .what = fmt::format("message({} to {}, {})", message.from, message.to, message.shape),
      .group = name(),
      .number = number,
      .message = true};
  refuse_if_broken(named);
  if (is_checked(number)) {
    compare(named, fmt::format("{}-{}/{}", message.from, message.to, number), 2);
  }
  const Start call = [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors = {tensor};
    return message.from == rank() ? backend.send(tensors, message.to, /*tag=*/0)
                                  : backend.recv(tensors, message.from, /*tag=*/0);
  };
  return launch(named, tensor, call, {});
}

bool Group::is_checked(std::int64_t number) const {
  return options_.check_all || (options_.check_first && number < kChecked);
}

void Group::refuse_if_broken(const Call& call) const {
  if (const auto failure = guard_.alarm->raised()) throw_failure(call, *failure);
}

Pending Group::launch(Call call, at::Tensor result, const Start& start,
                      std::function<void()> finish) {
  auto operation = std::make_unique<BackendOperation>();
  operation->call = std::move(call);
  operation->guard = guard_;
  operation->result = std::move(result);
  operation->finish = std::move(finish);
  try {
    operation->work = start(*backend_);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    // Gloo refuses every operation on a group that lost a connection.
    const std::string text = error.what();
    throw_failure(operation->call, guard_.lookout->ring(fmt::format(
                                       "could not begin ({})", text.substr(0, text.find('\n')))));
  }
  operation->follow();
  return Pending(std::move(operation));
}

void Group::compare(const Call& call, const std::string& key, int callers) {
  compare_calls({.store = *options_.store,
                 .key = "call/" + key,
                 .callers = callers,
                 .rank = options_.ranks[static_cast<std::size_t>(rank())]},
                call, guard_);
}

}  // namespace daso
