// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/background_work.h"

#include <ATen/core/ivalue.h>

#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace daso {
namespace {

class Work final : public c10d::Work {
 public:
  Work(int rank, c10d::OpType type, std::vector<at::Tensor> results, std::size_t parts)
      : c10d::Work(rank, type),
        results_(std::move(results)),
        parts_(parts),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()))) {}

  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  void end_part(const std::exception_ptr& error) {
    {
      const std::lock_guard lock(parts_mutex_);
      if (!error_) error_ = error;
      if (--parts_ > 0) return;
    }
    error_ ? future_->setError(error_) : future_->markCompleted(c10::IValue(results_));
    finish(error_);
  }

 private:
  std::vector<at::Tensor> results_;
  std::mutex parts_mutex_;    // guards the next two
  std::size_t parts_;         // that have not ended
  std::exception_ptr error_;  // the first
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace

BackgroundWork begin_work(int rank, c10d::OpType type, std::vector<at::Tensor> results,
                          std::size_t parts) {
  const auto work = c10::make_intrusive<Work>(rank, type, std::move(results), parts);
  return {.work = work,
          .end_part = [work](const std::exception_ptr& error) { work->end_part(error); }};
}

}  // namespace daso
