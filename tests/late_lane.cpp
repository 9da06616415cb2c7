// SPDX-License-Identifier: Apache-2.0
#include "late_lane.h"

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "daso/base/worker.h"

namespace daso::test {
namespace {

constexpr std::chrono::microseconds kLate(500);

struct Flag final : LaneMark {
  explicit Flag(bool at_once) : is_set(at_once) {}
  bool reached() const override { return is_set.load(std::memory_order_acquire); }
  std::atomic<bool> is_set;
};

class LateLane final : public Lane {
 public:
  bool copies() const override { return true; }
  // The caller is a thread of the CPU, which has done what it was given.
  std::shared_ptr<LaneMark> mark_of_caller() override { return std::make_shared<Flag>(true); }
  void follow(const LaneMark& /*mark*/) override {}
  std::shared_ptr<LaneMark> mark() override {
    auto flag = std::make_shared<Flag>(false);
    worker_.post([flag] { flag->is_set.store(true, std::memory_order_release); });
    return flag;
  }
  void lead_caller() override { worker_.wait(); }
  at::Tensor host_room(const at::Tensor& like) override {
    return at::full_like(like, kNeverCopied);
  }
  void copy(const at::Tensor& to, const at::Tensor& from) override {
    worker_.post([to, from] {
      std::this_thread::sleep_for(kLate);  // late, not to wait for anything
      to.copy_(from);
    });
  }
  void run(const std::function<void()>& work) override {
    worker_.wait();
    work();
  }

 private:
  static constexpr int kNeverCopied = 77;
  Worker worker_{"late lane"};
};

}  // namespace

std::unique_ptr<Lane> late_lane() { return std::make_unique<LateLane>(); }

}  // namespace daso::test
