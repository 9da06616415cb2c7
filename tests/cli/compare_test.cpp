// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/compare_runs.h"
#include "daso/base/error.h"
#include "run_ranks.h"
#include "scratch_folder.h"

namespace daso::test {
namespace {

TEST(Compare, UnderstandsCandidates) {
  const std::vector<Candidate> all = parse_candidates("--strategies", "sync,daso,daso:paper");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].strategy, "sync");
  EXPECT_EQ(all[2].strategy, "daso");
  EXPECT_EQ(all[2].preset, "paper");
  for (const char* wrong : {"", "snyc", "daso:papr", "sync:paper", "daso,daso"}) {
    EXPECT_THROW(parse_candidates("--strategies", wrong), ConfigError) << wrong;
  }
}

// local with skip 1 is sync to rounding (SGD with momentum), so the rows must agree.
TEST(Compare, EqualStrategiesGetEqualRows) {
  const ScratchFolder folder;
  CompareOptions options;
  options.job.data = "synthetic:train=256,test=64,size=8,channels=1";
  options.job.model = "mlp";
  options.job.epochs = 3;
  options.job.batch_size = 16;
  options.job.out = folder.path();
  options.job.schedule = ScheduleKind::kFixed;
  options.job.skip = 1;
  options.seeds = 2;
  options.target_accuracy = 0.01;
  options.candidates = parse_candidates("--strategies", "sync,local");
  std::vector<CompareRow> rows;
  run_ranks({.ranks = 2, .nodes = {"a", "b"}}, [&](World& world) {
    const std::vector<CompareRow> own = compare_runs(world, options, /*quiet=*/true);
    if (world.rank() == 0) rows = own;
  });
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_NEAR(rows[0].train_loss.mean, rows[1].train_loss.mean, 1e-4);
  EXPECT_NEAR(rows[0].train_loss.deviation, rows[1].train_loss.deviation, 1e-4);
  EXPECT_NEAR(rows[1].train_loss_difference, 0, 1e-4);
  EXPECT_NEAR(rows[1].test_accuracy_difference, 0, 1.01 / 64);
  for (const CompareRow& row : rows) {
    EXPECT_GT(row.train_loss.deviation, 0);
    EXPECT_GT(row.node_seconds, 0);
    EXPECT_GT(row.bytes_between_nodes, 0);
    EXPECT_LE(row.seconds_to_target.value(), row.seconds.mean);
    ASSERT_EQ(row.runs.size(), 2U);
    EXPECT_TRUE(std::filesystem::exists(row.runs[1] / "metrics.jsonl"));
  }
  const auto json = nlohmann::json::parse(json_text(rows));
  EXPECT_EQ(json["rows"][1]["strategy"], "local");
  EXPECT_THAT(table_text(rows, options), testing::HasSubstr("local"));
}

}  // namespace
}  // namespace daso::test
