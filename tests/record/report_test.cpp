// SPDX-License-Identifier: Apache-2.0
#include "daso/record/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daso/base/error.h"
#include "daso/record/report_text.h"
#include "scratch_folder.h"

namespace daso {

extern const char kReportPage[];  // NOLINT(modernize-avoid-c-arrays): as long as the file

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

std::string read(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

bool has(const std::string& page, const std::string& part) {
  return page.find(part) != std::string::npos;
}

std::size_t count(const std::string& page, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = page.find(part); at != std::string::npos; at = page.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// The page's block of JSON.
json drawn(const std::string& page) {
  const std::string begin = R"(<script type="application/json" id="runs">)";
  const std::size_t from = page.find(begin) + begin.size();
  return json::parse(page.substr(from, page.find("</script>", from) - from));
}

std::string record(int step, const json& more = json::object()) {
  json all = {{"step", step},      {"epoch", step / 8},   {"phase", "cycling"},
              {"skip", 4},         {"wait", 1},           {"seconds", 0.5 * (step + 1)},
              {"train_loss", 2.0}, {"learning_rate", 0.1}};
  all.update(more);
  return all.dump() + "\n";
}

json summary() {
  return {{"strategy", "daso"},
          {"nodes", 2},
          {"ranks", 4},
          {"epochs", 3},
          {"steps", 96},
          {"seconds", 24.441481777},
          {"samples_per_second", 502.75184263023255},
          {"wait_seconds", 4.727746647749999},
          {"exchanges", 14},
          {"staleness_mean", 1.0},
          {"bytes_between_nodes", 29628288},
          {"test_loss", 1.1973487734794617},
          {"test_accuracy", 0.7998046875},
          {"exit", 0}};
}

class RunReport : public testing::Test {
 protected:
  fs::path run(const std::string& name, const json& figures, const std::string& records = record(0),
               const std::string& configuration = "lr = 0.1\n") {
    fs::path folder = scratch_.path() / name;
    write(folder / "metrics.jsonl", records);
    write(folder / "config.toml", configuration);
    if (!figures.is_null()) write(folder / "summary.json", figures.dump(2));
    return folder;
  }

  const test::ScratchFolder scratch_;
};

TEST(ReportText, NothingOfItIsTakenForMarkup) {
  EXPECT_EQ(html_text("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
  EXPECT_EQ(html_text("\xc3\xa9 \xff"), "\xc3\xa9 \xef\xbf\xbd");
  EXPECT_EQ(link_to("a b/c#d%.json"), "a%20b/c%23d%25.json");
}

TEST(ReportText, NumbersAreReadable) {
  EXPECT_EQ(with_separators(1234567.891, 1), "1,234,567.9");
  EXPECT_EQ(with_separators(-1000, 0), "-1,000");
  EXPECT_EQ(with_separators(999, 0), "999");
  EXPECT_EQ(short_number(0.01234), "0.0123");
  EXPECT_EQ(short_number(78.91), "78.9");
  EXPECT_EQ(short_number(9.999), "10.0");
  EXPECT_EQ(short_number(12345.6), "12,346");
  EXPECT_EQ(short_number(0), "0");
  EXPECT_EQ(short_number(std::nan("")), "not a number");
}

TEST(ReportText, UnitsSuitTheirNumbers) {
  EXPECT_EQ(bytes_text(512), "512 bytes");
  EXPECT_EQ(bytes_text(29628288), "29.6 MB");
  EXPECT_EQ(bytes_text(999999), "1.00 MB");
  EXPECT_EQ(percent_text(0.1934), "19.3 %");
}

TEST(Duration, ShortOnesHaveTheUnitThatSuitsThem) {
  EXPECT_EQ(short_duration(0), "0 s");
  EXPECT_EQ(short_duration(59.4), "59 s");
  EXPECT_EQ(short_duration(59.6), "1:00 min");
  EXPECT_EQ(short_duration(375), "6:15 min");
  EXPECT_EQ(short_duration(3599.4), "59:59 min");
  EXPECT_EQ(short_duration(3599.6), "1:00 h");
  EXPECT_EQ(short_duration(100 * 3600 + 5 * 60 + 59), "100:05 h");
}

TEST(Duration, WordsBeginAtTwoMinutes) {
  EXPECT_EQ(duration_text(119), "");
  EXPECT_EQ(duration_text(120), "2 min 0 s");
  EXPECT_EQ(duration_text(252), "4 min 12 s");
  EXPECT_EQ(duration_text(3599.6), "1 h 0 min");
  EXPECT_EQ(duration_text(11100), "3 h 5 min");
}

// They come from files that anybody may have written.
TEST(Duration, AnyNumberHasOne) {
  for (const double strange : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(short_duration(strange), "0 s");
    EXPECT_EQ(duration_text(strange), "");
  }
  EXPECT_EQ(short_duration(1e300), short_duration(1e15));
  EXPECT_EQ(duration_text(1e300), duration_text(1e15));
}

TEST(ReportText, DatesAreThoseOfGreenwich) {
  EXPECT_EQ(date_text(0), "1 January 1970, 00:00 UTC");
  EXPECT_EQ(date_text(1794864600), "16 November 2026, 21:30 UTC");
}

TEST(Line, LeavesOutWhatMattersLeast) {
  const std::vector<LinePart> parts = {{"epoch 1", 9}, {"loss 2", 5}, {"", 8}, {"late", 1}};
  EXPECT_EQ(fitted(parts, 100), "epoch 1  loss 2  late");
  EXPECT_EQ(fitted(parts, 21), "epoch 1  loss 2  late");
  EXPECT_EQ(fitted(parts, 20), "epoch 1  loss 2");
  EXPECT_EQ(fitted(parts, 14), "epoch 1");
  EXPECT_EQ(fitted(parts, 3), "epo");
  EXPECT_EQ(fitted(parts, 0), "");
}

TEST(ReportPage, IsInTheProgramByteForByte) { EXPECT_EQ(kReportPage, read(DASO_REPORT_PAGE)); }

TEST_F(RunReport, FiguresAreThoseOfTheSummary) {
  const std::string page = report_page({run("r", summary())});
  for (const char* field :
       {"nodes", "ranks", "epochs", "steps", "seconds", "samples_per_second", "wait_seconds",
        "exchanges", "staleness_mean", "bytes_between_nodes", "test_loss", "test_accuracy"}) {
    const std::string element =
        fmt::format(R"(data-field="{}" data-value="{}")", field, summary()[field].dump());
    EXPECT_EQ(count(page, element), 1) << element;
  }
  EXPECT_TRUE(has(page, "data-field=\"strategy\" data-value=\"daso\">daso<"));
  EXPECT_TRUE(has(page, ">79.98 %<"));
  EXPECT_TRUE(has(page, ">29.6 MB<"));
  EXPECT_TRUE(has(page, ">19.3 %<"));  // 4.7277 of 24.441 seconds
}

TEST_F(RunReport, TextOfARunStaysText) {
  json figures = summary();
  figures["strategy"] = "</script><script>alert(1)</script>{{files}}";
  const fs::path hostile =
      run("<i>", figures, record(0, {{"phase", "</script>{{title}}"}}), "data = \"</table><b>\"\n");
  const std::string page = report_page({hostile, run("other", summary())});
  EXPECT_FALSE(has(page, "<script>alert"));
  EXPECT_FALSE(has(page, "</table><b>"));
  EXPECT_TRUE(has(page, "&lt;/table&gt;&lt;b&gt;"));
  EXPECT_EQ(drawn(page)[0]["phase"][0], "</script>{{title}}");
  EXPECT_EQ(drawn(page)[0]["label"], figures["strategy"]);
  EXPECT_EQ(count(page, "</script>"), 2);  // the page's own
}

TEST_F(RunReport, NumbersThatAreNotFiniteAreGaps) {
  json figures = summary();
  figures["test_loss"] = nullptr;  // what the JSON writer makes of not a number
  const std::string records =
      record(0) + record(1, {{"train_loss", nullptr}}) +
      "{\"step\":2,\"train_loss\":NaN}\n{\"step\":3,\"train_loss\":1e999}\n" + record(4) +
      R"({"step":5,"train_lo)";
  const std::string page = report_page({run("r", figures, records)});
  const json curves = drawn(page)[0];
  EXPECT_EQ(curves["step"], json({0, 1, 4}));
  EXPECT_EQ(curves["train_loss"], json({2.0, nullptr, 2.0}));
  EXPECT_TRUE(has(page, "data-value=\"null\">not a number<"));
}

TEST_F(RunReport, ARunThatGoesOnSaysSo) {
  const std::string records = record(0) + record(7, {{"test_accuracy", 0.25}}) + record(10);
  const std::string page = report_page(
      {run("r", nullptr, records, "strategy = \"sync\"\nnodes = 2\nranks-per-node = \"3,1\"\n")});
  EXPECT_TRUE(has(page, "is still going, or was stopped without a summary"));
  EXPECT_TRUE(has(page, "after 11 steps"));
  EXPECT_TRUE(has(page, "data-field=\"test_accuracy\" data-value=\"0.25\""));
  EXPECT_TRUE(has(page, "data-field=\"seconds\" data-value=\"5.5\""));
  EXPECT_TRUE(has(page, "data-field=\"ranks\" data-value=\"4\""));
  EXPECT_FALSE(has(page, "data-field=\"exchanges\""));
}

TEST_F(RunReport, ASummaryOlderThanTheRecordsIsNotShown) {
  json figures = summary();
  figures["steps"] = 8;  // interrupted there, then resumed
  EXPECT_FALSE(has(report_page({run("r", figures, record(7))}), "still going"));
  EXPECT_TRUE(has(report_page({run("r", figures, record(7) + record(10))}), "still going"));
}

TEST_F(RunReport, ADeviceHasItsRowsAndCurve) {
  const std::string records = record(0, {{"device_memory", 2e9}, {"device_share", 0.5}}) +
                              record(1, {{"device_memory", 3e9}, {"device_share", 1.0}});
  const fs::path with = run("with", summary(), records);
  const fs::path without = run("without", summary());
  const std::string page = report_page({with});
  EXPECT_TRUE(has(page, "<dt>Device memory</dt>"));
  EXPECT_TRUE(has(page, ">3.00 GB<"));
  EXPECT_TRUE(has(page, ">75.0 %<"));  // the mean
  EXPECT_EQ(drawn(page)[0]["device_share"], json({0.5, 1.0}));
  const std::string both = report_page({with, without});
  EXPECT_EQ(drawn(both)[1]["device_share"], json({nullptr}));
  EXPECT_TRUE(has(both, "<th scope=\"row\">Device memory</th>"));
  const fs::path other = run("other", summary());
  EXPECT_FALSE(has(report_page({without}), "Device memory"));
  EXPECT_FALSE(has(report_page({without, other}), "Device memory"));
  EXPECT_FALSE(drawn(report_page({without}))[0].contains("device_share"));
}

TEST_F(RunReport, ARunThatFailedSaysSo) {
  json figures = summary();
  figures["exit"] = 1;
  EXPECT_TRUE(has(report_page({run("r", figures)}), "ended with exit code 1."));
  EXPECT_FALSE(has(report_page({run("s", summary())}), "ended with exit code"));
}

TEST_F(RunReport, AFolderThatIsNoRunIsRefused) {
  fs::create_directories(scratch_.path() / "empty");
  try {
    report_page({scratch_.path() / "empty"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_TRUE(has(error.what(), "neither metrics.jsonl nor summary.json")) << error.what();
  }
  EXPECT_THROW(report_page({scratch_.path() / "absent"}), ConfigError);
  EXPECT_THROW(report_page({}), ConfigError);
  write(scratch_.path() / "broken/summary.json", "{\"steps\": 3");
  EXPECT_THROW(report_page({scratch_.path() / "broken"}), ConfigError);
}

TEST_F(RunReport, WhatARunDoesNotHaveIsLeftOut) {
  const std::string old = report_page({run("old", summary())});
  EXPECT_FALSE(has(old, "id=\"budget\""));
  EXPECT_FALSE(has(old, "id=\"late\""));
  write(scratch_.path() / "bare/summary.json", summary().dump());
  EXPECT_FALSE(has(report_page({scratch_.path() / "bare"}), "id=\"configuration\""));
}

TEST_F(RunReport, PartsOfTheTimeBudgetAreAsLongAsTheirShare) {
  json figures = summary();
  figures["time_budget"] = {{{"node", 0},
                             {"seconds", 20},
                             {"compute", 15},
                             {"exposed_communication", 5},
                             {"data", 0},
                             {"evaluation", 0},
                             {"checkpoint", 0},
                             {"hidden_communication", 10}},
                            {{"node", 1}, {"seconds", 10}, {"compute", 10}}};
  const std::string page = report_page({run("r", figures)});
  EXPECT_TRUE(has(page,
                  "class=\"part compute\" style=\"flex-grow:0.750000\" title=\"Compute: 15.0 s, "
                  "75.0 %\">75 %<"));
  EXPECT_TRUE(has(page, "class=\"part exposed_communication\" style=\"flex-grow:0.250000\""));
  EXPECT_EQ(count(page, "class=\"bar\" style=\"width:100.000%\""), 1);
  EXPECT_EQ(count(page, "class=\"bar\" style=\"width:50.000%\""), 1);   // half as long
  EXPECT_EQ(count(page, "class=\"thin\" style=\"width:50.000%\""), 1);  // 10 of 20 seconds
}

TEST_F(RunReport, RanksThatWereLateStandInTheOrderOfTheirSeconds) {
  json figures = summary();
  for (int rank = 0; rank < 10; ++rank) {
    figures["late"].push_back(
        {{"rank", rank}, {"node", 0}, {"times", rank}, {"seconds", 0.01 * rank}});
  }
  const std::string page = report_page({run("r", figures)});
  EXPECT_LT(page.find("<th scope=\"row\">9</th>"), page.find("<th scope=\"row\">8</th>"));
  EXPECT_TRUE(has(page, "<summary>2 more ranks</summary>"));
  figures["late"] = {{{"rank", 0}, {"node", 0}, {"times", 0}, {"seconds", 0.0}}};
  EXPECT_TRUE(has(report_page({run("s", figures)}), "No rank was late by more than 5 ms."));
}

TEST_F(RunReport, ARankIsLateOnceHoweverOftenItIsRecorded) {
  const auto late = [](int rank, int step, double seconds) {
    return json{{"late_rank", rank}, {"late_step", step}, {"late_seconds", seconds}};
  };
  const std::string page =
      report_page({run("r", summary(),
                       record(10, late(1, 7, 0.2)) + record(20, late(1, 7, 0.2)) +
                           record(30, late(1, 24, 0.004)) + record(40, late(3, 33, 0.05)))});
  EXPECT_EQ(drawn(page)[0]["late"], json({{7, 1, 0.2}, {33, 3, 0.05}}));
}

// One line of membership.jsonl.
std::string view(int number, const json& nodes, double time, const json& more = json::object()) {
  json line = {
      {"view", number},          {"first_exchange", 0}, {"nodes", nodes}, {"lost", json::array()},
      {"joined", json::array()}, {"donor", nullptr},    {"epoch", 0},     {"batch", 0},
      {"step", 10 * number},     {"time", time}};
  line.update(more);
  return line.dump() + "\n";
}

// The status is of second 200: a bar of 50 s is half of the run.
TEST_F(RunReport, NodesThatCameAndWentHaveATimeLine) {
  const fs::path folder = run("a", summary());
  write(folder / "status.json", R"({"updated": 200})");
  write(folder / "membership.jsonl", view(1, {0, 1}, 100, {{"begins", true}}) +
                                         view(2, {0}, 150, {{"lost", {1}}, {"stall", 5.0}}) +
                                         R"({"exchange": 3, "outcome": "abandoned", "view": 2})"
                                         "\n" +
                                         view(3, {0, 1}, 175, {{"joined", {1}}, {"donor", 0}}) +
                                         view(4, {0}, 190, {{"left", {1}}}));
  const std::string page = report_page({folder});
  EXPECT_TRUE(has(page, "<section id=\"members\">"));
  EXPECT_TRUE(has(page,
                  "data-node=\"0\"><span>Node 0</span><div class=\"track\">"
                  "<span style=\"left:0.000%;width:100.000%\"></span>"
                  "<b style=\"left:45.000%;width:5.000%\" title=\"stall of 5.00 s, view 2\"></b>"
                  "</div>"));
  EXPECT_TRUE(has(page,
                  "<span style=\"left:0.000%;width:50.000%\"></span>"
                  "<span style=\"left:75.000%;width:15.000%\"></span><i class=\"lost\""));
  EXPECT_TRUE(
      has(page, "<i class=\"lost\" style=\"left:50.000%\" title=\"lost after 50.0 s, view 2"));
  EXPECT_TRUE(has(page, "<i class=\"joined\" style=\"left:75.000%\""));
  EXPECT_TRUE(has(page, "<i class=\"left\" style=\"left:90.000%\" title=\"left after 90.0 s"));
  EXPECT_TRUE(has(page, "<a href=\"membership.jsonl\">"));
}

TEST_F(RunReport, ARunWithOneViewHasNoTimeLine) {
  const fs::path folder = run("a", summary());
  EXPECT_FALSE(has(report_page({folder}), "<section id=\"members\">"));
  write(folder / "membership.jsonl", view(1, {0, 1}, 100, {{"begins", true}}));
  EXPECT_FALSE(has(report_page({folder}), "<section id=\"members\">"));
}

TEST_F(RunReport, SeveralRunsStandSideBySide) {
  json sync = summary();
  sync["strategy"] = "sync";
  const fs::path a = run("a", summary(), record(0), "lr = 0.1\nseed = 1\nwire = \"int8\"\n");
  const fs::path b = run("b", sync, record(0), "lr = 0.1\nseed = 2\n");
  const std::string page = report_page({a, b});
  EXPECT_EQ(drawn(page)[0]["label"], "daso");  // strategies tell them apart
  EXPECT_EQ(drawn(page)[1]["label"], "sync");
  EXPECT_EQ(count(page, "data-field=\"seconds\""), 2);
  EXPECT_EQ(count(page, "<tr class=\"differs\">"), 2);  // seed, wire
  EXPECT_LT(page.find("<th scope=\"row\">seed "), page.find("<th scope=\"row\">lr</th>"));
  EXPECT_EQ(drawn(report_page({a, a / ".." / "b", run("c", sync)}))[1]["label"], "b");
}

TEST_F(RunReport, SaysWhatWasTrainedAndWhen) {
  const fs::path folder = run("r", summary(), record(0), "model = \"cnn\"\ndata = \"a<b\"\n");
  write(folder / "status.json", R"({"model":"other","updated":1794864600.5})");
  EXPECT_TRUE(has(report_page({folder}),
                  "<p class=\"subject\">cnn on a&lt;b &middot; 16 November 2026, 21:30 UTC</p>"));
  // A training loop of one's own has no configuration.
  write(scratch_.path() / "own/summary.json", summary().dump());
  write(scratch_.path() / "own/status.json", R"({"model":"mine","data":"numbers"})");
  EXPECT_TRUE(
      has(report_page({scratch_.path() / "own"}), "<p class=\"subject\">mine on numbers</p>"));
}

TEST_F(RunReport, NothingWasStaleWhereNothingWasMergedLate) {
  json local = summary();
  local["staleness_mean"] = 0.0;  // its exchanges are blocking averages
  EXPECT_FALSE(has(report_page({run("a", local)}), "staleness"));
  const std::string both = report_page({run("b", summary()), run("c", local)});
  EXPECT_EQ(count(both, "data-field=\"staleness_mean\""), 1);
}

TEST_F(RunReport, TrainingLossIsTheMeanOfAWindow) {
  std::string records;
  for (int i = 0; i < 200; ++i) {  // windows of two records
    records += record(i, {{"train_loss", 100}, {"recent_loss", i}});
  }
  const json curves = drawn(report_page({run("r", nullptr, records)}))[0];
  EXPECT_EQ(curves["train_loss"][0], 0);
  EXPECT_EQ(curves["train_loss"][1], 0.5);
  EXPECT_EQ(curves["train_loss"][199], 198.5);
  // Nine steps are more than one.
  const json uneven = drawn(report_page({run(
      "s", nullptr, record(0, {{"recent_loss", 7}}) + record(9, {{"recent_loss", nullptr}}))}))[0];
  EXPECT_EQ(uneven["train_loss"], json({7, nullptr}));
}

TEST_F(RunReport, ReplicasThatAreEqualHaveNoDistance) {
  const auto in = [](int step, const char* phase) {
    return record(step, {{"phase", phase}, {"distance", 0.5}});
  };
  const std::string records = in(0, "warmup") + in(10, "cycling") + in(20, "cooldown");
  EXPECT_EQ(drawn(report_page({run("r", summary(), records)}))[0]["distance"],
            json({nullptr, 0.5, nullptr}));
}

TEST_F(RunReport, RunsThatDifferByTheirSeedsAreOneWithABand) {
  const auto seed = [&](int number) {
    json figures = summary();
    figures["test_accuracy"] = 0.1 * number;
    return run("seed" + std::to_string(number), figures,
               record(0, {{"train_loss", number}}) + record(10, {{"train_loss", number}}),
               fmt::format("model = \"cnn\"\nseed = {}\n", number));
  };
  json sync = summary();
  sync["strategy"] = "sync";
  const fs::path other = run("other", sync, record(0), "model = \"mlp\"\nseed = 1\n");
  const std::string page = report_page({seed(1), seed(2), seed(6), other});
  EXPECT_TRUE(has(page, "<h1>4 runs of 2 candidates</h1>"));
  ASSERT_EQ(drawn(page).size(), 2U);
  const json curves = drawn(page)[0];
  EXPECT_EQ(curves["label"], "daso");
  EXPECT_EQ(curves["seeds"], 3);
  EXPECT_EQ(curves["train_loss"], json({3.0, 3.0}));
  EXPECT_EQ(curves["train_loss_low"], json({1.0, 1.0}));
  EXPECT_EQ(curves["train_loss_high"], json({6.0, 6.0}));
  // (0.1, 0.2, 0.6): mean 0.3, deviation sqrt((0.04 + 0.01 + 0.09) / 2).
  EXPECT_TRUE(has(page, ">30.00 %</span> <small>&plusmn; 26.46 %</small>"));
  EXPECT_TRUE(has(page, "<td>1, 2, 6</td>"));
  for (const char* folder : {"seed1", "seed2", "seed6"}) {
    EXPECT_TRUE(has(page, std::string(folder) + "/metrics.jsonl\">")) << folder;
  }
  EXPECT_TRUE(has(report_page({seed(1), seed(2)}), "<h1>daso, 2 seeds</h1>"));
  // One seed twice is two runs.
  EXPECT_EQ(drawn(report_page({seed(1), seed(1)})).size(), 2U);
}

TEST_F(RunReport, LabelsThatAreGivenTellRunsApart) {
  const fs::path a = run("a", summary());
  const fs::path b = run("b", summary());
  const std::string page =
      report_page({{a, "daso:skip=8"}, {b, "daso:skip=8"}, {a, "x"}, {b, "x"}});
  EXPECT_TRUE(has(page, "<h1>4 runs: 2 candidates with 2 seeds each</h1>"));
  EXPECT_EQ(drawn(page)[0]["label"], "daso:skip=8");
  EXPECT_EQ(drawn(page)[1]["seeds"], 2);
}

TEST_F(RunReport, SeveralRunsHaveABarEach) {
  json figures = summary();
  for (int node = 0; node < 2; ++node) {
    figures["time_budget"].push_back(
        {{"node", node}, {"seconds", 10 + 10 * node}, {"compute", 10}});
  }
  json sync = figures;
  sync["strategy"] = "sync";
  const std::string page = report_page({run("a", figures), run("b", sync)});
  EXPECT_EQ(count(page, "<div class=\"bar\""), 2);
  EXPECT_TRUE(has(page, "<div class=\"node of-run\"><span>sync</span>"));
  EXPECT_TRUE(has(page, "<span>15.0 s</span>"));  // of 10 and 20
  EXPECT_TRUE(has(page, "<summary>Each of 4 nodes</summary>"));
}

TEST_F(RunReport, ExposedTimeIsSplitByItsCauses) {
  json figures = summary();
  figures["time_budget"] = {{{"node", 0},
                             {"seconds", 20},
                             {"exposed_communication", 6},
                             {"exposed_by_cause", {{"all_gradients", 5}, {"merges", 1}}}}};
  const std::string page = report_page({run("r", figures)});
  EXPECT_TRUE(has(page, "<th scope=\"row\">Warm-up and cool-down</th><td>5.00 s <small>25.0 %"));
  EXPECT_TRUE(has(page, "<th scope=\"row\">Merges</th><td>1.00 s <small>5.0 %"));
  EXPECT_FALSE(has(page, "Batch statistics"));
  EXPECT_TRUE(has(page, "<li>25.0 % of the time: Warm-up and cool-down average"));
  // Without phases it is what the strategy does all the time.
  const json blocking = json::parse(record(0));
  json plain = blocking;
  plain.erase("phase");
  const std::string sync = report_page({run("s", figures, plain.dump() + "\n")});
  EXPECT_TRUE(has(sync, "<th scope=\"row\">Gradients of all ranks</th>"));
  EXPECT_TRUE(has(sync, "strategy daso exchanges parameters in the background instead"));
  const std::string both = report_page({run("s", figures, plain.dump() + "\n"), run("r", figures)});
  EXPECT_TRUE(has(both, "Gradients of all ranks, in every step or in warm-up and cool-down</th>"));
}

TEST_F(RunReport, LongRunsAreThinnedButKeepTheirTests) {
  std::string records;
  for (int i = 0; i < 5000; ++i) {
    records += record(i, i % 1000 == 7 ? json{{"test_accuracy", 0.5}} : json::object());
  }
  json figures = summary();
  figures["steps"] = 5000;
  const json curves = drawn(report_page({run("r", figures, records)}))[0];
  EXPECT_LT(curves["step"].size(), 1600);
  EXPECT_GT(curves["step"].size(), 1200);
  EXPECT_EQ(curves["step"].back(), 4999);
  const json& accuracy = curves["test_accuracy"];
  EXPECT_EQ(std::count(accuracy.begin(), accuracy.end(), json(0.5)), 5);
}

TEST_F(RunReport, TimesOfAResumedRunAreLaidEndToEnd) {
  const std::string records = record(0, {{"seconds", 1}}) + record(10, {{"seconds", 9}}) +
                              record(20, {{"seconds", 2}}) + record(30, {{"seconds", 5}});
  EXPECT_EQ(drawn(report_page({run("r", summary(), records)}))[0]["seconds"],
            json({1.0, 9.0, 11.0, 14.0}));
}

TEST_F(RunReport, LinksLeadFromThePageToTheFiles) {
  const fs::path folder = run("my run", summary());
  write(folder / "trace.json", "[]");
  write(folder / "stray.txt", "");
  EXPECT_TRUE(has(report_page({folder}), "<a href=\"trace.json\">trace.json</a>"));
  write_report({folder}, scratch_.path() / "page.html");
  const std::string page = read(scratch_.path() / "page.html");
  EXPECT_TRUE(has(page, "<a href=\"my%20run/trace.json\">trace.json</a>"));
  EXPECT_TRUE(has(page, "ui.perfetto.dev"));
  EXPECT_FALSE(has(page, "stray.txt"));
  EXPECT_THROW(write_report({folder}, scratch_.path() / "absent/page.html"), ConfigError);
}

}  // namespace
}  // namespace daso
