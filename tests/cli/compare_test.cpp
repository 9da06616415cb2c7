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

using namespace daso::cli;

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

// The rows of rank 0.
std::vector<CompareRow> rows_of(const CompareOptions& options,
                                const std::vector<std::string>& nodes) {
  std::vector<CompareRow> rows;
  run_ranks({.ranks = static_cast<int>(nodes.size()), .nodes = nodes}, [&](World& world) {
    const std::vector<CompareRow> own = compare_runs(world, options, /*quiet=*/true);
    if (world.rank() == 0) rows = own;
  });
  return rows;
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
  const std::vector<CompareRow> rows = rows_of(options, {"a", "b"});
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

TEST(Compare, LeavesOutWhatAStrategyHasNoUseFor) {
  CompareOptions options;
  options.job.sync_batchnorm = true;
  options.job.wire = Wire::kBf16;
  options.job.skip = 2;
  options.candidates = parse_candidates("--strategies", "none,node,sync,local,daso,daso:paper");
  EXPECT_NO_THROW(validate(options));
}

TEST(Compare, RefusesTheFlagsOfAnotherSchedule) {
  CompareOptions options;
  options.job.patience = 3;
  options.candidates = parse_candidates("--strategies", "daso:paper");  // its schedule is plateau
  EXPECT_NO_THROW(validate(options));
  options.candidates = parse_candidates("--strategies", "daso,daso:paper");
  EXPECT_THROW(validate(options), ConfigError);
  options.job.schedule = ScheduleKind::kPlateau;
  EXPECT_NO_THROW(validate(options));
}

// Without the flag and with it: the ranks of sync share their statistics, those of none do not.
TEST(Compare, StatisticsAreSharedWhereRanksTrainOneModel) {
  std::vector<std::vector<CompareRow>> rows;
  for (const bool shared : {false, true}) {
    const ScratchFolder folder;
    CompareOptions options;
    options.job.data = "synthetic:train=64,test=16,size=8,channels=1";
    options.job.model = "cnn";
    options.job.epochs = 1;
    options.job.batch_size = 8;
    options.job.out = folder.path();
    options.job.sync_batchnorm = shared;
    options.candidates = parse_candidates("--strategies", "none,sync");
    rows.push_back(rows_of(options, {"a", "a"}));
    ASSERT_EQ(rows.back().size(), 2U);
  }
  EXPECT_EQ(rows[0][0].train_loss.mean, rows[1][0].train_loss.mean);
  EXPECT_NE(rows[0][1].train_loss.mean, rows[1][1].train_loss.mean);
}

}  // namespace
}  // namespace daso::test
