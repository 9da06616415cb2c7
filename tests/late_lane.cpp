// SPDX-License-Identifier: Apache-2.0
#include "late_lane.h"

#include <ATen/ATen.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "daso/base/worker.h"

namespace daso::test {
namespace {

struct Flag final : LaneMark, std::enable_shared_from_this<Flag> {
  explicit Flag(std::int64_t number) : leads(number) {}
  bool reached() const override { return is_set.load(std::memory_order_acquire); }
  std::optional<Clock::time_point> time() const override {
    if (!reached()) return std::nullopt;
    return when;
  }
  void set() {
    when = Clock::now();
    is_set.store(true, std::memory_order_release);
  }

  const std::int64_t leads;  // how often the lane had led the caller when it was made
  Clock::time_point when;
  std::atomic<bool> is_set{false};
};

class LateLane final : public Lane {
 public:
  explicit LateLane(const LateLaneOptions& options) : options_(options) {}

  bool copies() const override { return true; }
  std::shared_ptr<LaneMark> mark_of_caller() override { return flag_of(caller_, options_.late); }
  void follow(const LaneMark& mark) override {
    const auto flag = dynamic_cast<const Flag&>(mark).shared_from_this();
    ordered_ = ordered_ || flag->leads == leads_;
    stream_.post([flag] {
      while (!flag->reached()) std::this_thread::yield();
    });
  }
  std::shared_ptr<LaneMark> mark() override { return flag_of(stream_, Seconds(0)); }
  void lead_caller() override {
    stream_.wait();
    ++leads_;
    ordered_ = false;
  }
  std::shared_ptr<LaneMark> moment_of_caller() override { return mark_of_caller(); }
  std::shared_ptr<LaneMark> moment() override { return mark(); }

  at::Tensor host_room(const at::Tensor& like) override {
    return at::full_like(like, kNeverCopied);
  }
  void copy(const at::Tensor& to, const at::Tensor& from) override {
    require_order();
    if (options_.bytes != nullptr) *options_.bytes += static_cast<std::int64_t>(from.nbytes());
    stream_.post([this, to, from] {
      std::this_thread::sleep_for(options_.late);  // late, not to wait for anything
      while (options_.hangs != nullptr && *options_.hangs) std::this_thread::yield();
      to.copy_(from);
    });
  }
  void run(const std::function<void()>& work) override {
    require_order();
    stream_.wait();
    work();
  }

 private:
  static constexpr int kNeverCopied = 77;

  std::shared_ptr<Flag> flag_of(Worker& worker, Seconds late) {
    auto flag = std::make_shared<Flag>(leads_);
    worker.post([flag, late] {
      std::this_thread::sleep_for(late);
      flag->set();
    });
    return flag;
  }
  void require_order() const {
    if (!ordered_)
      throw std::logic_error("a lane was given work that follows nothing of the caller");
  }

  const LateLaneOptions options_;
  std::atomic<std::int64_t> leads_ = 0;
  bool ordered_ = false;
  Worker caller_{"late caller"};
  Worker stream_{"late lane"};  // last: it waits for the caller
};

}  // namespace

std::unique_ptr<Lane> late_lane_with(const LateLaneOptions& options) {
  return std::make_unique<LateLane>(options);
}
std::unique_ptr<Lane> late_lane() { return late_lane_with({}); }

}  // namespace daso::test
