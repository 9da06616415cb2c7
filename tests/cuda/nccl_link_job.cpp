// SPDX-License-Identifier: Apache-2.0
// One rank of a job whose tensors lie on GPUs, started by nccl_link_test or any launcher:
//
//   nccl_link_job check      what links and groups do with them is what it must be
//   nccl_link_job loop       reduces and gathers until that fails; says "running" once it is at it
//   nccl_link_job mismatch   the last rank calls something else
//
// DASO_TEST_DEVICE is the device (cuda), DASO_TEST_TIMEOUT the limit in seconds.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "comm/link_checks.h"
#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/comm/world.h"
#include "daso/tensor/device.h"

namespace daso::test {
namespace {

struct Job {
  World& world;
  at::Device device;
  NodeLink& link;
};

void say(const std::string& text) {
  std::puts(text.c_str());
  std::fflush(stdout);
}

std::vector<Slices> cuts_of(const Job& job) {
  const int ranks = job.link.size();
  return {{ranks, 0}, {1, ranks - 1}, {ranks - 1, 1}};
}

void reduces_and_gathers(const Job& job) {
  EXPECT_EQ(job.link.size(), job.world.size());
  for (const Slices slices : cuts_of(job)) {
    for (const std::int64_t elements : {0, 1, 255, 256, 1000, 1'500'001}) {
      expect_mean(job.link, elements, slices, job.device);
      expect_gathered(job.link, {elements}, at::kChar, slices, elements, job.device);
    }
    expect_gathered(job.link, {7, 11}, at::kFloat, slices, 0, job.device);
    expect_gathered(job.link, {1000, 3, 701}, at::kBFloat16, slices, 1, job.device);
    expect_gathered(job.link, {4, 0}, at::kFloat, slices, 2, job.device);
    expect_gathered(job.link, {33, 2}, at::kDouble, slices, 3, job.device);
  }
}

// Values whose sum depends on the order: only the owner adds, so all ranks have its bits.
void gives_all_ranks_the_same_bits(const Job& job) {
  const at::Tensor own = at::rand({100'003}, at::detail::createCPUGenerator(job.world.rank() + 1));
  const at::Tensor tensor = own.to(job.device);
  const Slices slices{.slices = job.link.size()};
  job.link.reduce(tensor, slices, kLimit);
  job.link.gather(tensor, slices, kLimit);
  const at::Tensor bits = tensor.cpu().view(at::kInt);
  const auto extreme = [&](Reduce how) {
    return job.world.everyone().all_reduce(bits.clone(), how).wait(kLimit);
  };
  EXPECT_TRUE(at::equal(extreme(Reduce::kMin), extreme(Reduce::kMax)));
  const at::Tensor mean =
      job.world.everyone().all_reduce(own.to(at::kDouble), Reduce::kMean).wait(kLimit);
  EXPECT_LT((tensor.cpu().to(at::kDouble) - mean).abs().max().item<double>(), 1e-6);
}

// A thread with a stream of its own, which is busy when the operation comes: it must wait its turn.
void comes_after_what_the_stream_was_given(const Job& job) {
  const c10::impl::VirtualGuardImpl guard(job.device.type());
  NodeLink& link = job.world.node_link("other", job.device);
  std::jthread([&] {
    const c10::StreamGuard stream(guard.getStreamFromGlobalPool(job.device));
    const at::Tensor busy =
        at::ones({4096, 4096}, at::TensorOptions(at::kFloat).device(job.device));
    for (int i = 0; i < 20; ++i) {
      const at::Tensor late = busy.mm(busy).narrow(0, 0, 64).contiguous();
      late.sub_(4096.0F).add_(static_cast<float>(job.world.rank()));  // the product is 4096
      link.reduce(late, {.slices = link.size()}, kLimit);
      link.gather(late, {.slices = link.size()}, kLimit);
      const float mean = static_cast<float>(job.world.size() - 1) / 2;
      EXPECT_TRUE(at::equal(late.cpu(), at::full({64, 4096}, mean)));
    }
  }).join();
}

// What a group gives for tensors of the GPU is what it gives for those of the CPU.
void groups_take_tensors_of_the_device(const Job& job) {
  Communicator& all = job.world.everyone();
  const int ranks = all.size();
  const int next = (all.rank() + 1) % ranks;
  const int before = (all.rank() + ranks - 1) % ranks;
  using Act = std::function<at::Tensor(const at::Tensor&)>;
  const std::vector<Act> acts = {
      [&](const at::Tensor& in) { return all.all_reduce(in, Reduce::kSum).wait(kLimit); },
      [&](const at::Tensor& in) { return all.all_reduce(in, Reduce::kMax).wait(kLimit); },
      [&](const at::Tensor& in) { return all.broadcast(in, ranks - 1).wait(kLimit); },
      [&](const at::Tensor& in) {
        const Segment own = segment_of(in.size(0), ranks, all.rank());
        return all.reduce_scatter(in, in.new_empty({own.length(), 3}), Reduce::kMin).wait(kLimit);
      },
      [&](const at::Tensor& in) {
        const Segment own = segment_of(in.size(0), ranks, all.rank());
        return all.all_gather(in.slice(0, own.begin, own.end).clone(), at::zeros_like(in))
            .wait(kLimit);
      },
      [&](const at::Tensor& in) {
        const Segment own = segment_of(in.size(0), ranks, all.rank());
        return all.all_to_all(in, in.new_empty({own.length() * ranks, 3})).wait(kLimit);
      },
      [&](const at::Tensor& in) {
        Pending sent = all.send(in, next);
        const at::Tensor got = all.receive(at::zeros_like(in), before).wait(kLimit);
        EXPECT_TRUE(std::move(sent).wait(kLimit).is_same(in));
        return got;
      }};
  for (std::size_t i = 0; i < acts.size(); ++i) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kLong}) {
      for (const std::int64_t rows : {0, 1, 5, 1000}) {
        const at::Tensor own = at::arange(3 * rows, at::kLong).remainder(7).add_(all.rank());
        const auto input = [&] { return own.to(type).view({rows, 3}).clone(); };
        const at::Tensor expected = acts[i](input());
        const at::Tensor found = acts[i](input().to(job.device));
        EXPECT_EQ(found.device(), job.device);
        EXPECT_TRUE(at::equal(found.cpu(), expected))
            << "operation " << i << ", " << rows << " rows";
      }
    }
  }
}

void refuses_what_does_not_fit(const Job& job) {
  EXPECT_THROW(job.link.reduce(at::ones({4}), {}, kLimit), ConfigError);  // on the CPU
  const at::Tensor doubles = at::ones({4}, at::TensorOptions(at::kDouble).device(job.device));
  EXPECT_THROW(job.link.reduce(doubles, {}, kLimit), ConfigError);
  EXPECT_THROW(job.world.node_link("host").reduce(doubles.to(at::kFloat), {}, kLimit), ConfigError);
}

int check(const Job& job) {
  const std::vector<std::pair<const char*, void (*)(const Job&)>> checks = {
      {"ReducesAndGathers", reduces_and_gathers},
      {"GivesAllRanksTheSameBits", gives_all_ranks_the_same_bits},
      {"ComesAfterWhatTheStreamWasGiven", comes_after_what_the_stream_was_given},
      {"GroupsTakeTensorsOfTheDevice", groups_take_tensors_of_the_device},
      {"RefusesWhatDoesNotFit", refuses_what_does_not_fit}};
  for (const auto& [name, body] : checks) {
    struct Check : testing::Test {
      Check(const Job& on, void (*what)(const Job&)) : job(on), act(what) {}
      void TestBody() override { act(job); }
      const Job& job;
      void (*act)(const Job&);
    };
    testing::RegisterTest("Job", name, nullptr, nullptr, __FILE__, __LINE__,
                          [&job, act = body]() -> testing::Test* { return new Check(job, act); });
  }
  const int failed = RUN_ALL_TESTS();
  if (failed == 0) say("conforms");
  return failed;
}

int loop(const Job& job) {
  const Slices slices{.slices = job.link.size()};
  const at::Tensor tensor = at::ones({1 << 22}, at::TensorOptions(at::kFloat).device(job.device));
  for (std::int64_t round = 0;; ++round) {
    job.link.reduce(tensor, slices, job.world.limit());
    job.link.gather(tensor, slices, job.world.limit());
    if (round == 5) say("running");
  }
}

int mismatch(const Job& job) {
  const bool last = job.link.rank() == job.link.size() - 1;
  expect_mean(job.link, 100, {.slices = job.link.size()}, job.device);
  const std::int64_t elements = last ? 1'000'000 : 1000;
  job.link.reduce(at::ones({elements}, at::TensorOptions(at::kFloat).device(job.device)),
                  {.slices = job.link.size()}, job.world.limit());
  return kExitBug;
}

}  // namespace
}  // namespace daso::test

int main(int argc, char** argv) {
  using namespace daso;
  testing::GTEST_FLAG(brief) = true;
  testing::InitGoogleTest(&argc, argv);
  const Environment environment = this_environment();
  WorldOptions options;
  if (const auto place = place_from(environment)) options.place = *place;
  options.limit = Seconds(find_integer(environment, "DASO_TEST_TIMEOUT").value_or(60));
  const std::string mode = argc > 1 ? argv[1] : "check";
  return rank_main(options, [&](World& world) {
    const DeviceChoice choice =
        parse_device(find(environment, "DASO_TEST_DEVICE").value_or("cuda"));
    const at::Device device = find_device(choice, world.local_rank()).device;
    const test::Job job{world, device, world.node_link("test", device)};
    test::say("over " + job.link.kind());
    if (mode == "loop") return test::loop(job);
    return mode == "mismatch" ? test::mismatch(job) : test::check(job);
  });
}
