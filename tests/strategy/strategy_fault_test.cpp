// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "daso/base/damaged.h"
#include "daso/base/error.h"
#include "daso/exchange/equal_copies.h"
#include "daso/tensor/large_tensor.h"
#include "replica.h"
#include "scripted_view.h"

// Flipped bits and values that are not finite: all ranks end, and know why.
namespace daso::test {
namespace {

using testing::HasSubstr;

// What each rank threw.
std::vector<std::exception_ptr> errors_of(
    const Job& job, const RankOptions& ranks,
    const std::function<void(World&, Replica&, const StepInfo&)>& meddle) {
  return run_places(ranks, [&](const WorldOptions& options) {
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

std::vector<std::exception_ptr> errors_of(
    const Job& job, const std::function<void(World&, Replica&, const StepInfo&)>& meddle) {
  return errors_of(job, ranks_of(job), meddle);
}

bool is_damaged(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const DamagedError&) {
    return true;
  } catch (...) {
  }
  return false;
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

// Nothing would mend it: all nodes get the same gradients, or the same mean.
TEST(Strategy, FindsABitFlippedWhereAllRanksTrainInStep) {
  for (const std::string strategy : {"sync", "local", "daso"}) {
    for (const std::int64_t batches : {10, 1000}) {
      Job job = job_of(strategy, /*epochs=*/2, batches);
      job.options.schedule.phases.warmup = 2;  // blocking: all gradients are averaged
      std::atomic<bool> late = false;
      const auto errors = errors_of(job, [&](World& world, Replica& replica, const StepInfo& info) {
        if (info.step == 3 && world.rank() == 2) flip_lowest_bit(replica.weights.tensors[2], 5);
        if (info.step == 3 + EqualCopies::kEvery + 3) late = true;
      });
      expect_all_name(errors, {"'w2'", "rank 2 (node b)", "differs from the others"});
      EXPECT_FALSE(late) << strategy;
    }
  }
}

TEST(Strategy, FindsABitFlippedInOneNode) {
  for (const std::string strategy : {"node", "local"}) {
    const auto errors =
        errors_of(job_of(strategy), [](World& world, Replica& replica, const StepInfo& info) {
          if (info.step == 2 && world.rank() == 2) flip_lowest_bit(replica.weights.tensors[2], 5);
        });
    EXPECT_THAT(text_of(errors[3]), HasSubstr("'w2' on rank 3")) << strategy;
    EXPECT_NE(exit_code_of(errors[2]), 0) << strategy;
  }
}

// The run outlives it: the node that is damaged is to come back with what the others have.
TEST(Strategy, EndsTheNodeThatIsDamagedAndNoOther) {
  for (const std::string strategy : {"sync", "local", "daso"}) {
    Job job = job_of(strategy, /*epochs=*/2, /*batches=*/1000);
    job.nodes = {"a", "a", "b", "c"};
    job.options.schedule.phases.warmup = 2;
    const RankOptions ranks =
        in_view(job.nodes, {{"a", 0}, {"b", 1}, {"c", 2}},
                std::make_shared<ScriptedView>(ScriptedView::Script{.nodes = 3}));
    const auto errors =
        errors_of(job, ranks, [](World& world, Replica& replica, const StepInfo& info) {
          if (info.step == 3 && world.rank() == 2) flip_lowest_bit(replica.weights.tensors[2], 5);
        });
    for (std::size_t rank = 0; rank < errors.size(); ++rank) {
      EXPECT_EQ(exit_code_of(errors[rank]), kExitPeer) << text_of(errors[rank]);
      EXPECT_EQ(is_damaged(errors[rank]), rank == 2) << text_of(errors[rank]);
    }
    EXPECT_THAT(text_of(errors[2]), HasSubstr("'w2' on rank 2 (node b) differs from the others"));
  }
}

// Of two nobody knows which one is right.
TEST(Strategy, EndsARunOfTwoNodesThatDiffer) {
  Job job = job_of("sync");
  job.nodes = {"a", "b"};
  const RankOptions ranks =
      in_view(job.nodes, {{"a", 0}, {"b", 1}},
              std::make_shared<ScriptedView>(ScriptedView::Script{.nodes = 2}));
  const auto errors =
      errors_of(job, ranks, [](World& world, Replica& replica, const StepInfo& info) {
        if (info.step == 3 && world.rank() == 1) flip_lowest_bit(replica.weights.tensors[2], 5);
      });
  expect_all_name(errors, {"'w2' on node b differs from that on node a"});
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
