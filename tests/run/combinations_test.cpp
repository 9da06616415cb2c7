// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <tuple>

#include "daso/base/error.h"
#include "runs.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

// What people combine. Each works, and goes on from a checkpoint with the same bytes.
using Combination = std::tuple<const char*, const char*, int, Uneven, bool>;

class Combinations : public testing::TestWithParam<Combination> {};

TEST_P(Combinations, LearnAndGoOn) {
  const auto [strategy, optimizer, accumulate, uneven, frozen] = GetParam();
  const RunOptions ranks{.nodes = {"a", "a", "b"}};
  const ScratchFolder whole;
  Settings options = small_run(whole.path());
  options.data = "synthetic:train=331,test=31,size=8,channels=1";  // divides by nothing
  options.strategy = strategy;
  options.optimizer.name = optimizer;
  options.batch_size = 8;
  options.accumulate = accumulate;
  options.uneven = uneven;
  if (frozen) options.freeze = {"fc1"};
  if (options.strategy != "sync") options.warmup_epochs = 1;
  options.checkpoint_every = Every{.number = 5, .unit = Every::Unit::kSteps};
  const std::vector<Summary> done = train(options, ranks);
  const std::int64_t batch = std::int64_t{8} * 3 * accumulate;
  const std::int64_t an_epoch = uneven == Uneven::kDrop ? 331 / batch : (331 + batch - 1) / batch;
  EXPECT_EQ(done[0].steps, 3 * an_epoch);
  EXPECT_EQ(done[0].epochs, 3);
  EXPECT_LT(done[0].train_loss, 2.25);  // 2.3 is what knows nothing

  const ScratchFolder rest;
  Settings resumed = options;
  resumed.out = rest.path();
  resumed.resume = true;
  resumed.resume_from = whole.path() / "checkpoints" / "step-000000010";
  train(resumed, ranks);
  EXPECT_TRUE(result_in(rest.path()) == result_in(whole.path()));
}

std::string name_of_case(const testing::TestParamInfo<Combination>& info) {
  const auto [strategy, optimizer, accumulate, uneven, frozen] = info.param;
  return fmt::format("{}_{}_accumulate{}_{}{}", strategy, optimizer, accumulate,
                     uneven == Uneven::kDrop ? "drop" : "wrap", frozen ? "_frozen" : "");
}

INSTANTIATE_TEST_SUITE_P(All, Combinations,
                         testing::Combine(testing::Values("sync", "local", "daso"),
                                          testing::Values("sgd", "adamw"), testing::Values(1, 2),
                                          testing::Values(Uneven::kDrop, Uneven::kWrap),
                                          testing::Bool()),
                         name_of_case);

}  // namespace
}  // namespace daso::test
