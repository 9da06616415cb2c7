// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/pending.h"

#include "daso/base/error.h"

namespace daso {

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
