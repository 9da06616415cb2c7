// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace daso {

// The caller's end of an operation that a thread of a backend of ours does, in one or more parts.
class BackgroundWork final : public c10d::Work {
 public:
  BackgroundWork(int rank, c10d::OpType type, std::vector<at::Tensor> results, std::size_t parts);

  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  // Once for every part, from any thread. The work ends with the last one, by the first error.
  void end_part(const std::exception_ptr& error);

 private:
  std::vector<at::Tensor> results_;
  std::mutex parts_mutex_;    // guards the next two
  std::size_t parts_;         // that have not ended
  std::exception_ptr error_;  // the first
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace daso
