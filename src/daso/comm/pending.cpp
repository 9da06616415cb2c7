// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/pending.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "daso/base/error.h"
#include "daso/comm/operation.h"

namespace daso {

Pending::Pending(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;
Pending::~Pending() = default;

at::Tensor Pending::wait(Seconds limit) && {
  DASO_ASSERT(operation_ != nullptr);  // waited for already
  const std::unique_ptr<Operation> operation = std::move(operation_);
  operation->wait(limit);
  return std::move(operation->result);
}

}  // namespace daso
