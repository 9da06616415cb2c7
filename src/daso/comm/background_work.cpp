// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/background_work.h"

#include <ATen/core/ivalue.h>

namespace daso {

BackgroundWork::BackgroundWork(int rank, c10d::OpType type, std::vector<at::Tensor> results,
                               std::size_t parts)
    : c10d::Work(rank, type),
      results_(std::move(results)),
      parts_(parts),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

void BackgroundWork::end_part(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(parts_mutex_);
    if (!error_) error_ = error;
    if (--parts_ > 0) return;
  }
  error_ ? future_->setError(error_) : future_->markCompleted(c10::IValue(results_));
  finish(error_);
}

}  // namespace daso
