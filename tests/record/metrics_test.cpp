// SPDX-License-Identifier: Apache-2.0
#include "daso/record/metrics.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace daso {
namespace {

using Fields = nlohmann::ordered_json;

Progress whole() {
  return {.info = {.epoch = 2, .step = 40, .batch = 0, .last = 19, .rate = 0.25, .next_rate = 0.5},
          .epochs = 3,
          .seconds = 1.5,
          .strategy = {.phase = Phase::kCycling,
                       .skip = 4,
                       .wait = 1,
                       .in_flight_for = 2,
                       .staleness = 3,
                       .distance = 0.125},
          .loss = 0.75,
          .recent_loss = 0.5,
          .samples_per_second = 100,
          .wait_share = 0.0625,
          .wait_seconds = 0.5,
          .bytes_between_nodes = 1 << 20,
          .late = Late{.rank = 3, .step = 33, .seconds = 0.03125},
          .worked = {},
          .test = Score{.loss = 2, .accuracy = 0.875}};
}

// What readers of the files of earlier versions rely on: names, order, kinds of numbers.
TEST(Metrics, ARecordHasItsNamesInOrder) {
  EXPECT_EQ(record_of(whole()).dump(),
            R"({"step":40,"epoch":2,"seconds":1.5,"phase":"cycling","skip":4,"wait":1,)"
            R"("learning_rate":0.25,)"
            R"("train_loss":0.75,"recent_loss":0.5,"samples_per_second":100.0,"wait_share":0.0625,)"
            R"("wait_seconds":0.5,"bytes_between_nodes":1048576,"staleness":3,)"
            R"("distance":0.125,"late_rank":3,"late_step":33,"late_seconds":0.03125,)"
            R"("test_loss":2.0,"test_accuracy":0.875})");
}

TEST(Metrics, ARecordLeavesOutWhatIsNotThere) {
  const Fields record = record_of(Progress{});
  std::set<std::string> expected;
  for (const Metric& metric : kMetrics) {
    if (metric.there.empty()) expected.emplace(metric.name);
  }
  std::set<std::string> found;
  for (const auto& [name, value] : record.items()) found.insert(name);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), 12U);
  EXPECT_FALSE(record.contains("phase"));  // of a strategy without phases
}

TEST(Metrics, TensorBoardHasThePhaseAsANumber) {
  std::set<std::string> tags;
  for (const Metric& metric : kMetrics) {
    if (metric.tag.empty()) continue;
    EXPECT_TRUE(tags.emplace(metric.tag).second) << metric.tag;
  }
  EXPECT_EQ(tags.size(), 17U);
  EXPECT_EQ(number_of(*metric_row("phase").take(whole())), 1);
  EXPECT_EQ(number_of(*metric_row("late_seconds").take(whole())), 0.03125);
}

TEST(Metrics, NodesAreCountedWhereTheyComeAndGo) {
  EXPECT_FALSE(record_of({}).contains("nodes"));
  EXPECT_EQ(record_of({.members = 2})["nodes"], 2);
}

TEST(Metrics, TheDocumentationHasTheTable) {
  constexpr const char* kBegin = "<!-- metrics: made by tests/record/metrics_test.cpp -->\n";
  constexpr const char* kEnd = "<!-- end of metrics -->\n";
  std::ostringstream text;
  text << std::ifstream(DASO_MEASURING).rdbuf();
  std::string page = text.str();
  const std::size_t begin = page.find(kBegin);
  const std::size_t end = page.find(kEnd);
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const std::size_t table = begin + std::string(kBegin).size();
  if (std::getenv("DASO_WRITE_DOCS") != nullptr) {
    page.replace(table, end - table, metrics_table());
    std::ofstream(DASO_MEASURING) << page;
    return;
  }
  EXPECT_EQ(page.substr(table, end - table), metrics_table())
      << "set DASO_WRITE_DOCS=1 to write it into docs/measuring.md";
}

}  // namespace
}  // namespace daso
