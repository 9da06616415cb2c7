// SPDX-License-Identifier: Apache-2.0
#include "daso/exchange/exchange.h"

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <atomic>

#include "daso/comm/owner_reduce.h"
#include "daso/exchange/agreement.h"
#include "daso/optim/sgd.h"
#include "daso/tensor/large_tensor.h"
#include "late_lane.h"
#include "run_ranks.h"
#include "together.h"

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
      const Leaders leaders(world, options.kind, "exchange");
      Exchange exchange(world, model, leaders, options, make_outer_rule(options.merge));
      world.everyone().broadcast(model.parameters(), 0).wait(world.limit());
      exchange.set_anchor();
      const auto round = [&](std::int64_t number) {
        exchange.start(number);
        exchange.merge(1);
      };
      round(0);
      round(1);  // rotating: the other leader's first
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

// Exchanges on these worlds and wires have the bits of Together.
void expect_bits_of_together(const std::function<std::unique_ptr<Lane>()>& make_lane) {
  const std::vector<std::vector<std::string>> worlds = {
      {"a", "a", "b", "b"}, {"a", "a", "b", "b", "c"}, {"a", "b", "c"}};
  for (const std::vector<std::string>& nodes : worlds) {
    for (const Wire wire : {Wire::kInt8, Wire::kInt4, Wire::kFp32, Wire::kQsgd1, Wire::kQsgd4}) {
      const ExchangeOptions options{.kind = ExchangeKind::kSharded, .wire = wire, .seed = 7};
      run_ranks({.ranks = static_cast<int>(nodes.size()), .nodes = nodes}, [&](World& world) {
        FlatModel model(torch::nn::Linear(600, 501).ptr());  // 1177 rows of 256
        world.everyone().broadcast(model.parameters(), 0).wait(world.limit());
        Sgd optimizer(model, {});
        const Leaders leaders(world, options.kind, "exchange");
        Exchange exchange(world, model, leaders, options, make_outer_rule(options.merge),
                          make_lane());
        Agreement agreement(world, model, optimizer, leaders, make_lane());
        exchange.set_anchor();
        const std::span<float> own = floats(model.parameters());
        const auto node = static_cast<std::size_t>(world.node());
        Together together(world.topology().weights(), {own.begin(), own.end()}, options);
        const auto learn = [&](std::int64_t round) {
          for (std::int64_t n = 0; n < world.topology().nodes(); ++n) {
            const at::Tensor step = progress(n, round, model.parameters().numel());
            together.move(static_cast<std::size_t>(n), step);
            if (n == world.node()) Together::add(own, step);
          }
        };
        for (std::int64_t round = 0; round < 3; ++round) {
          learn(2 * round);
          exchange.start(round);
          together.start(round);
          learn(2 * round + 1);
          exchange.merge(1);
          together.merge();
          ASSERT_EQ(Floats(own.begin(), own.end()), together.parameters(node)) << round;
        }
        const Floats agreed = together.agreed();
        agreement.agree(3, exchange.residuals());
        EXPECT_EQ(Floats(own.begin(), own.end()), agreed);
      });
    }
  }
}

TEST(Exchange, PiecesChangeNoBits) {
  expect_bits_of_together([] { return nullptr; });
}

TEST(Exchange, CopiesToTheHostAndBackChangeNoBitsHoweverLateTheyAre) {
  expect_bits_of_together(late_lane);
}

// As a device tells them in a trace: encoded, copied down and up, merged, one after the other.
TEST(Exchange, TellsWhenTheDeviceDidWhat) {
  const ExchangeOptions options{.wire = Wire::kInt8};
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [&](World& world) {
    const FlatModel model(torch::nn::Linear(100, 77).ptr());
    world.everyone().broadcast(model.parameters(), 0).wait(world.limit());
    const Leaders leaders(world, options.kind, "exchange");
    Exchange exchange(world, model, leaders, options, make_outer_rule(options.merge), late_lane());
    exchange.set_anchor();
    const auto once = [&](std::int64_t number) {
      exchange.start(number);
      exchange.merge(1);
    };
    once(0);
    EXPECT_TRUE(world.timeline().events().empty());  // nothing is recorded
    world.timeline().record(true);
    const auto begin = Clock::now();
    once(1);
    world.timeline().record(false);
    std::vector<Event> spans;
    // The device is late: a span is there when it has come past its end.
    const auto of_device = [&] {
      spans.clear();
      for (const Event& event : world.timeline().events()) {
        if (event.track == Track::kDevice) spans.push_back(event);
      }
      return spans.size() == 4;
    };
    world.wait_until(of_device, "the spans of the stand-in");
    std::sort(spans.begin(), spans.end(),
              [](const Event& a, const Event& b) { return a.begin < b.begin; });
    std::vector<std::string> names;
    for (const Event& span : spans) {
      names.emplace_back(span.name);
      EXPECT_EQ(span.number, 1);
      EXPECT_LT(begin, span.begin);
      EXPECT_LT(span.begin, span.end);
      EXPECT_LT(span.end, Clock::now());
    }
    EXPECT_EQ(names, (std::vector<std::string>{"encode", "copy to the host", "copy from the host",
                                               "merge"}));
  });
}

// What lets an exchange be given up: until its merge, parameters and residuals stay as they are.
void expect_only_its_merge_changes(const std::function<std::unique_ptr<Lane>()>& make_lane) {
  const ExchangeOptions options{.wire = Wire::kInt4};
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [&](World& world) {
    const FlatModel model(torch::nn::Linear(100, 77).ptr());
    world.everyone().broadcast(model.parameters(), 0).wait(world.limit());
    const Leaders leaders(world, options.kind, "exchange");
    Exchange exchange(world, model, leaders, options, make_outer_rule(options.merge), make_lane());
    exchange.set_anchor();
    model.parameters().add_(progress(world.node(), 0, model.parameters().numel()));
    const at::Tensor parameters = model.parameters().clone();
    exchange.start(0);
    const State in_flight = exchange.state();  // waits for the answer
    EXPECT_TRUE(at::equal(model.parameters(), parameters));
    const at::Tensor residual = at::cat(exchange.residuals());
    EXPECT_EQ(residual.abs().sum().item<float>(), 0);
    exchange.merge(1);
    EXPECT_FALSE(at::equal(model.parameters(), parameters));
    const at::Tensor merged = at::cat(exchange.residuals());
    EXPECT_GT(merged.abs().sum().item<float>(), 0);
    EXPECT_TRUE(
        at::equal(merged, tensor_in(in_flight, "exchange.rest").narrow(0, 0, merged.size(0))));
  });
}

TEST(Exchange, OnlyItsMergeChangesWhatIsKept) {
  expect_only_its_merge_changes([] { return nullptr; });
  expect_only_its_merge_changes(late_lane);
}

// A lane that turns what has come to this rank, once it is told to.
class TurningLane final : public Lane {
 public:
  TurningLane(const at::Tensor& tensor, const bool& turns)
      : inner_(open_lane(at::kCPU)), tensor_(tensor), turns_(turns) {}

  bool copies() const override { return inner_->copies(); }
  std::shared_ptr<LaneMark> mark_of_caller() override { return inner_->mark_of_caller(); }
  void follow(const LaneMark& mark) override { inner_->follow(mark); }
  std::shared_ptr<LaneMark> mark() override { return inner_->mark(); }
  void lead_caller() override { inner_->lead_caller(); }
  std::shared_ptr<LaneMark> moment_of_caller() override { return inner_->moment_of_caller(); }
  std::shared_ptr<LaneMark> moment() override { return inner_->moment(); }
  at::Tensor host_room(const at::Tensor& like) override { return inner_->host_room(like); }
  void copy(const at::Tensor& to, const at::Tensor& from) override { inner_->copy(to, from); }
  void run(const std::function<void()>& work) override {
    inner_->run(work);
    if (turns_) floats(tensor_)[5] += 1;
  }

 private:
  const std::unique_ptr<Lane> inner_;
  const at::Tensor tensor_;
  const bool& turns_;
};

// The answer was damaged on its way to one node. All ranks hear of it before they use the next
// mean.
TEST(Agreement, FindsOutThatNodesGotAnotherMean) {
  for (const int nodes : {2, 3}) {
    std::vector<std::string> names = {"a", "b", "c"};
    names.resize(static_cast<std::size_t>(nodes));
    const auto errors =
        run_places({.ranks = nodes, .nodes = names}, [&](const WorldOptions& place) {
          World world = World::join(place);
          FlatModel model(torch::nn::Linear(100, 77).ptr());
          Sgd optimizer(model, {});
          const Leaders leaders(world, ExchangeKind::kSharded, "exchange");
          bool turns = false;
          Agreement agreement(world, model, optimizer, leaders,
                              std::make_unique<TurningLane>(model.parameters(), turns));
          agreement.average_parameters(0);
          agreement.average_parameters(1);
          turns = world.rank() == 1;
          agreement.agree(2);
          turns = false;
          model.parameters().add_(progress(world.node(), 0, model.parameters().numel()));
          agreement.average_parameters(3);
        });
    for (const std::exception_ptr& error : errors) {
      EXPECT_EQ(text_of(error),
                fmt::format("exchange 2: the parameters after the mean are not the same: that on "
                            "node b differs from {}",
                            nodes == 2 ? "that on node a" : "the others"));
    }
  }
}

TEST(SentSums, SayWhoseBytesWereDamaged) {
  run_ranks({.ranks = 3}, [](World& world) {
    SentSums sums(world.everyone());
    for (const bool damaged : {false, true, false}) {
      // Segment r of what rank s sends has the value 10 s + r.
      for (int round = 0; round < 2; ++round) {
        const at::Tensor sent = at::arange(3) + 10 * world.rank();
        sums.add_sent(sent);
        const at::Tensor received = at::empty({3}, at::kLong);
        world.everyone().all_to_all(sent.clone(), received).wait(world.limit());
        if (damaged && round == 0 && world.rank() == 2) received[1] += 1 << 20;
        sums.add_received(received);
      }
      sums.tell();
      EXPECT_EQ(sums.damaged(world.limit()),
                damaged && world.rank() == 2 ? std::optional(1) : std::nullopt);
    }
  });
}

}  // namespace
}  // namespace daso::test
