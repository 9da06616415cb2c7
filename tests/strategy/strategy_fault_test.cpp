// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/tensor/large_tensor.h"
#include "replica.h"

// Flipped bits and values that are not finite: all ranks end, and know why.
namespace daso::test {
namespace {

using testing::HasSubstr;

// What each rank threw.
std::vector<std::exception_ptr> errors_of(
    const Job& job, const std::function<void(World&, Replica&, const StepInfo&)>& meddle) {
  return run_places(ranks_of(job), [&](const WorldOptions& options) {
    World world = World::join(options);
    try {
      Replica replica(world, job);
      Job meddled = job;
      meddled.after = [&](World& w, FlatModel&, Strategy&, Optimizer&, const StepInfo& info) {
        meddle(w, replica, info);
      };
      train(world, meddled, replica);
    } catch (const PeerError&) {
      throw;
    } catch (const std::exception& error) {
      world.abandon(error.what());
      throw;
    }
  });
}

void flip_lowest_bit(const at::Tensor& tensor, std::int64_t element) {
  float& value = floats(tensor)[static_cast<std::size_t>(element)];
  value = std::nextafter(value, 1e9F);
}

// All ranks end; at least one names the cause, and the others learn it from that one.
void expect_all_name(const std::vector<std::exception_ptr>& errors,
                     const std::vector<std::string>& words) {
  bool found = false;
  for (const std::exception_ptr& error : errors) {
    EXPECT_NE(exit_code_of(error), 0);
    found = found || exit_code_of(error) == kExitBug;
    for (const std::string& word : words) EXPECT_THAT(text_of(error), HasSubstr(word));
  }
  EXPECT_TRUE(found);
}

TEST(Daso, FindsABitFlippedInANodesAnchor) {
  Job job = job_of("daso");
  job.options.exchange.wire = Wire::kInt8;
  const auto errors = errors_of(job, [](World& world, Replica& replica, const StepInfo& info) {
    if (info.step != 3 || world.node() != 1) return;  // after a merge, before the next start
    State state = replica.strategy->state();
    // w4 is first in the layout: rank 2 keeps the first half of the blocks, rank 3 the second.
    if (world.local_rank() == 0) flip_lowest_bit(state.at("exchange.anchor"), 100);
    replica.strategy->load_state(state);
  });
  expect_all_name(errors, {"'w4'", "anchor"});
}

TEST(Daso, FindsABitFlippedInOneRanksParameters) {
  Job job = job_of("daso");
  const auto errors = errors_of(job, [](World& world, Replica& replica, const StepInfo& info) {
    if (info.step == 3 && world.rank() == 2) flip_lowest_bit(replica.weights.tensors[2], 5);
  });
  expect_all_name(errors, {"'w2'", "rank 3 differs from that on rank 2"});
}

TEST(Strategy, EndsAllRanksWhenAGradientIsNotFinite) {
  for (const std::string strategy : {"sync", "local", "daso", "node"}) {
    Job job = job_of(strategy);
    job.gradient = [](const at::Tensor& value, int rank, std::int64_t step) {
      const at::Tensor gradient = pull(value, rank, step);
      return rank == 2 && step == 5 && value.numel() == 513 ? gradient / 0.0 : gradient;
    };
    const auto errors = errors_of(job, [](World&, Replica&, const StepInfo&) {});
    EXPECT_THAT(text_of(errors[2]), HasSubstr("'w2' on rank 2")) << strategy;
    EXPECT_EQ(exit_code_of(errors[2]), kExitBug);
    for (const std::exception_ptr& error : errors) {
      if (strategy == "node" && exit_code_of(error) == 0) continue;  // the other node may be done
      EXPECT_THAT(text_of(error), HasSubstr("not finite")) << strategy;
    }
  }
}

// Gradients are finite, what travels is not: above fp16's range.
TEST(Daso, NamesTheNodeWhoseChangeCannotTravel) {
  Job job = job_of("daso");
  job.options.exchange.wire = Wire::kFp16;
  job.gradient = [](const at::Tensor& value, int rank, std::int64_t) {
    return rank >= 2 && value.numel() == 40 ? at::full_like(value, 1e8) : at::zeros_like(value);
  };
  expect_all_name(errors_of(job, [](World&, Replica&, const StepInfo&) {}),
                  {"'w3' on node b", "fp16"});
}

}  // namespace
}  // namespace daso::test
