// SPDX-License-Identifier: Apache-2.0
#include "daso/global/exchange.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <atomic>

#include "run_ranks.h"

namespace daso::test {
namespace {

// LibTorch's own allocator, with a count of what is worth counting.
class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator& real) : real_(real) {}
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes >= kWorthCounting) ++count_;
    return real_.allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const override { return real_.raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    real_.copy_data(to, from, bytes);
  }
  int count() const { return count_; }

 private:
  static constexpr std::size_t kWorthCounting =
      1024;  // headers are smaller, everything else larger
  c10::Allocator& real_;
  std::atomic<int> count_ = 0;
};

class Counted {
 public:
  Counted() : real_(*c10::GetCPUAllocator()), counting(real_) {
    c10::SetCPUAllocator(&counting, kOurs);
  }
  ~Counted() { c10::SetCPUAllocator(&real_, kOurs); }

 private:
  static constexpr std::uint8_t kOurs = 100;
  c10::Allocator& real_;

 public:
  CountingAllocator counting;
};

TEST(Exchange, AllocatesNothingAfterTheFirst) {
  for (const ExchangeOptions& options :
       {ExchangeOptions{},
        ExchangeOptions{ExchangeKind::kRotating, Wire::kFp32, MergeRule::kPaper}}) {
    const Counted counted;
    run_ranks({.ranks = 4, .nodes = {"a", "a", "b", "b"}}, [&](World& world) {
      const FlatModel model(torch::nn::Linear(100, 77).ptr());
      const Speakers speakers(world, options.kind, "exchange");
      Exchange exchange(world, model, speakers, options);
      world.everyone().broadcast(model.parameters(), 0).wait(world.limit());
      exchange.set_anchor();
      const auto round = [&](std::int64_t number) {
        exchange.start(number);
        exchange.merge(1);
      };
      round(0);
      round(1);  // rotating: the other speaker's first
      world.everyone().barrier().wait(world.limit());
      const int before = counted.counting.count();
      world.everyone().barrier().wait(world.limit());
      for (std::int64_t number = 2; number < 10; ++number) round(number);
      world.everyone().barrier().wait(world.limit());
      EXPECT_EQ(counted.counting.count(), before);
      EXPECT_GT(before, 0);
    });
  }
}

}  // namespace
}  // namespace daso::test
