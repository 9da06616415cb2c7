// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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
  EXPECT_EQ(settings_of(all[2], {}).preset, "paper");
  for (const char* wrong : {"", "snyc", "daso:papr", "sync:paper", "daso,daso", "daso:skp=8",
                            "daso:skip=8:skip=4", "daso:seed=2", "daso:out=x", "daso:resume=x"}) {
    EXPECT_THROW(parse_candidates("--strategies", wrong), ConfigError) << wrong;
  }
}

TEST(Compare, CandidatesHaveFlagsOfTheirOwn) {
  const std::vector<Candidate> all =
      parse_candidates("--strategies", "daso:skip=8:wire=int4,daso:nesterov,daso");
  EXPECT_EQ(all[0].label, "daso:skip=8:wire=int4");
  EXPECT_EQ(all[0].folder, "daso-skip=8-wire=int4");
  Settings job;
  job.skip = 2;
  EXPECT_EQ(settings_of(all[0], job).skip, 8);
  EXPECT_EQ(settings_of(all[0], job).wire, Wire::kInt4);
  EXPECT_TRUE(settings_of(all[1], job).optimizer.nesterov);
  EXPECT_EQ(settings_of(all[2], job).skip, 2);
  EXPECT_EQ(settings_of(all[2], job).wire, std::nullopt);
}

// What a flag of its own replaces of the job's does not count, as on the command line of train.
TEST(Compare, AFlagOfItsOwnReplacesWhatBelongsToTheJobs) {
  Settings job;
  job.lr_schedule = RateKind::kCosine;
  job.lr_end = 0.1;
  const auto all = parse_candidates("--strategies", "sync:lr-schedule=constant,sync");
  EXPECT_EQ(settings_of(all[0], job).lr_end, std::nullopt);
  EXPECT_EQ(settings_of(all[1], job).lr_end, 0.1);
}

TEST(Compare, RefusesFlagsThatACandidateHasNoUseFor) {
  CompareOptions options;
  for (const char* wrong : {"sync:wire=int8", "daso:skip=0", "daso:wire=int5", "daso:skip"}) {
    try {
      options.candidates = parse_candidates("--strategies", wrong);
      validate(options);
      FAIL() << wrong;
    } catch (const ConfigError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(wrong));
    }
  }
}

TEST(Compare, FoldersDifferWhereLabelsDo) {
  const auto all = parse_candidates("--strategies", "daso:data=a/b,daso:data=a b");
  EXPECT_EQ(all[0].folder, "daso-data=a-b");
  EXPECT_NE(all[0].folder, all[1].folder);
}

// Differences 1, 2 and 3: their mean is 2, their deviation 1, and t of two degrees is 4.3027.
TEST(Compare, DifferencesArePairedBySeed) {
  const Difference found = difference({11, 22, 33}, {10, 20, 30});
  EXPECT_DOUBLE_EQ(found.mean, 2);
  EXPECT_NEAR(found.margin.value(), 4.30265 / std::sqrt(3.0), 1e-4);
  EXPECT_EQ(difference({3}, {1}).mean, 2);
  EXPECT_EQ(difference({3}, {1}).margin, std::nullopt);
}

TEST(Compare, RowsAreALineOfCsvEach) {
  CompareRow row;
  row.label = "daso:freeze=\"a\"";
  row.seconds.mean = 1.5;
  row.test_accuracy.mean = std::nan("");  // of a task without labels
  const std::string text = csv_text({row, row});
  EXPECT_THAT(text, testing::StartsWith("strategy,seconds,seconds_deviation,seconds_difference,"));
  EXPECT_THAT(text, testing::HasSubstr("\n\"daso:freeze=\"\"a\"\"\",1.5,0.0,0.0,,"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("null")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

// The rows of rank 0.
std::vector<CompareRow> rows_of(const CompareOptions& options,
                                const std::vector<std::string>& nodes) {
  std::vector<CompareRow> rows;
  run_ranks({.ranks = static_cast<int>(nodes.size()), .nodes = nodes}, [&](World& world) {
    compare_runs(world, options, /*quiet=*/true,
                 [&](const std::vector<CompareRow>& now, int) { rows = now; });
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
  EXPECT_NEAR(rows[1].train_loss_difference.mean, 0, 1e-4);
  EXPECT_NEAR(rows[1].train_loss_difference.margin.value(), 0, 1e-3);
  EXPECT_NEAR(rows[1].test_accuracy_difference.mean, 0, 1.01 / 64);
  for (const CompareRow& row : rows) {
    EXPECT_GT(row.train_loss.deviation, 0);
    EXPECT_GT(row.node_seconds, 0);
    EXPECT_GT(row.bytes_between_nodes, 0);
    EXPECT_LE(row.seconds_to_target.value(), row.seconds.mean);
    ASSERT_EQ(row.runs.size(), 2U);
    EXPECT_TRUE(std::filesystem::exists(row.runs[1] / "metrics.jsonl"));
    EXPECT_TRUE(std::filesystem::exists(row.runs[1] / "config.toml"));
  }
  const auto json = nlohmann::json::parse(json_text(rows));
  EXPECT_EQ(json["rows"][1]["strategy"], "local");
  EXPECT_THAT(table_text(rows, /*target=*/true), testing::HasSubstr("local"));
}

// What is known after a seed is told at once: whoever stops a comparison keeps it.
TEST(Compare, RowsAreToldAfterEachSeed) {
  const ScratchFolder folder;
  CompareOptions options;
  options.job.data = "synthetic:train=64,test=16,size=8,channels=1";
  options.job.model = "mlp";
  options.job.epochs = 1;
  options.job.out = folder.path();
  options.seeds = 2;
  options.candidates = parse_candidates("--strategies", "sync:epochs=2,node");
  std::vector<std::size_t> told;
  run_ranks({.ranks = 1}, [&](World& world) {
    compare_runs(world, options, /*quiet=*/true,
                 [&](const std::vector<CompareRow>& rows, int seeds) {
                   EXPECT_EQ(rows.size(), 2U);
                   EXPECT_EQ(rows[0].runs.size(), static_cast<std::size_t>(seeds));
                   EXPECT_TRUE(std::filesystem::exists(rows[1].runs.back() / "summary.json"));
                   told.push_back(rows[0].runs.size());
                 });
  });
  EXPECT_EQ(told, (std::vector<std::size_t>{1, 2}));
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
