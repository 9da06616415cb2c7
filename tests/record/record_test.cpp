// SPDX-License-Identifier: Apache-2.0
#include "daso/record/record.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "daso/base/error.h"
#include "daso/record/lateness.h"
#include "daso/record/meter.h"
#include "daso/record/run_files.h"
#include "run_ranks.h"
#include "scratch_folder.h"
#include "scripted_view.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Does nothing, and costs what it is told.
class Idle : public Strategy {
 public:
  explicit Idle(Costs costs = {}) : costs_(costs) {}
  Reach reach(const StepInfo&) const override { return Reach::kRank; }
  void begin_backward(const StepInfo&) override {}
  void before_step() override {}
  StrategyEvents after_step(const StepInfo&) override { return {}; }
  double mean_loss(int, double loss) override { return loss; }
  void average_buffers() override {}
  State state() override { return {}; }
  void load_state(const State&) override {}
  Costs costs() const override { return costs_; }

 private:
  const Costs costs_;
};

constexpr int kEpochs = 2;
constexpr std::int64_t kBatches = 24;

StepInfo at(int epoch, std::int64_t batch) {
  return {.epoch = epoch,
          .step = epoch * kBatches + batch,
          .batch = batch,
          .last = kBatches - 1,
          .rate = 0.5,
          .next_rate = std::nullopt};
}

json read(const fs::path& file) {
  std::ifstream stream(file);
  return json::parse(stream);
}

std::vector<json> records_in(const fs::path& folder) {
  std::vector<json> records;
  std::ifstream stream(folder / "metrics.jsonl");
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) records.push_back(json::parse(line));
  }
  return records;
}

void pass_time(Seconds seconds) {
  const auto begin = Clock::now();
  while (since(begin) < seconds) {
  }
}

// The loss of a step is its number in the epoch, so the mean of the first b + 1 is b / 2.
void train(Record& record, int from_epoch = 0) {
  using Kind = StrategyEvent::Kind;
  for (int epoch = from_epoch; epoch < kEpochs; ++epoch) {
    for (std::int64_t batch = 0; batch < kBatches; ++batch) {
      StrategyEvents events;
      if (batch == 1) events = {{Kind::kMerge, 0, /*staleness=*/epoch + 1}, {Kind::kStart, 1}};
      record.step(at(epoch, batch), static_cast<double>(batch), events);
    }
    record.end_epoch(/*train_loss=*/100 + epoch, Score{.loss = 3, .accuracy = 0.5});
  }
}

TEST(Record, LeavesTheFilesOfARun) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "new" / "run";
  run_ranks({.ranks = 3, .nodes = {"a", "a", "b"}}, [&](World& world) {
    const Idle strategy({.background_seconds = 0, .bytes_between_nodes = 10});
    Record record(world, strategy,
                  {.folder = folder, .epochs = kEpochs, .batch_size = 8, .trace_steps = 30});
    train(record);
    const Summary summary = record.finish();
    EXPECT_EQ(summary.epochs, kEpochs);
    EXPECT_EQ(summary.steps, kEpochs * kBatches);
  });

  std::vector<std::int64_t> steps;
  for (const json& one : records_in(folder)) steps.push_back(one.at("step"));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 10, 20, 23, 30, 40, 47}));
  const json middle = records_in(folder)[1];
  EXPECT_EQ(middle.at("train_loss"), 5);                   // of 0 ... 10
  EXPECT_EQ(middle.at("recent_loss"), 5.5);                // of 1 ... 10
  EXPECT_EQ(records_in(folder)[3].at("recent_loss"), 22);  // of 21 ... 23
  EXPECT_EQ(records_in(folder)[4].at("recent_loss"), 3);   // of 0 ... 6 of the next epoch
  EXPECT_FALSE(middle.contains("test_loss"));
  EXPECT_FALSE(middle.contains("phase"));
  const json last = records_in(folder).back();
  EXPECT_EQ(last.at("train_loss"), 101);
  EXPECT_EQ(last.at("test_accuracy"), 0.5);
  EXPECT_EQ(last.at("bytes_between_nodes"), 10);

  const json summary = read(folder / "summary.json");
  EXPECT_EQ(summary.at("nodes"), 2);
  EXPECT_EQ(summary.at("ranks"), 3);
  EXPECT_EQ(summary.at("bytes_between_nodes"), 30);  // of three ranks
  EXPECT_EQ(summary.at("exchanges"), kEpochs);
  EXPECT_EQ(summary.at("staleness_mean"), 1.5);  // of 1 and 2
  EXPECT_EQ(summary.at("train_loss"), 101);
  EXPECT_NEAR(summary.at("samples_per_second").get<double>() * summary.at("seconds").get<double>(),
              kEpochs * kBatches * 8 * 3, 1e-6);
  EXPECT_EQ(read(folder / "status.json").at("state"), "finished");
  EXPECT_EQ(read(folder / "status.json").at("ranks").size(), 3U);
  EXPECT_TRUE(fs::exists(folder / "report.html"));

  std::int64_t traced = 0;
  const json trace = read(folder / "trace.json");
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name").get<std::string>().starts_with("step ")) ++traced;
  }
  EXPECT_EQ(traced, 3 * 30);  // the first 30 steps of three ranks
}

// A launcher may deal ranks out to the nodes in turn, and viewers sort by numbers or by names.
TEST(Record, ATraceHasItsRanksNodeByNode) {
  const ScratchFolder scratch;
  constexpr int kRanks = 11;
  std::vector<std::string> nodes;
  for (int rank = 0; rank < kRanks; ++rank) nodes.emplace_back(rank % 2 == 0 ? "a" : "b");
  run_ranks({.ranks = kRanks, .nodes = nodes}, [&](World& world) {
    const Idle strategy;
    Record record(world, strategy, {.folder = scratch.path(), .trace_steps = 1});
    record.step(at(0, 0), 1);
    record.finish();
  });
  std::map<int, std::string> by_number;
  const json trace = read(scratch.path() / "trace.json");
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("name") != "process_name") continue;
    by_number[event.at("pid")] = event.at("args").at("name").get<std::string>().substr(0, 14);
  }
  std::vector<std::string> names;
  for (const auto& [number, name] : by_number) names.push_back(name);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  ASSERT_EQ(names.size(), static_cast<std::size_t>(kRanks));
  EXPECT_EQ(names[0], "node 0 rank 00");
  EXPECT_EQ(names[1], "node 0 rank 02");
  EXPECT_EQ(names[5], "node 0 rank 10");
  EXPECT_EQ(names[6], "node 1 rank 01");
}

TEST(Record, WithoutAnEvaluationThereIsNoScore) {
  const ScratchFolder scratch;
  World world = World::alone();
  const Idle strategy;
  Record record(world, strategy, {.folder = scratch.path(), .trace_steps = 0});
  for (std::int64_t batch = 0; batch < kBatches; ++batch) record.step(at(0, batch), 1);
  record.end_epoch(1);
  record.finish();
  EXPECT_FALSE(read(scratch.path() / "summary.json").contains("test_accuracy"));
  EXPECT_TRUE(read(scratch.path() / "status.json").at("test_accuracy").is_null());
  EXPECT_FALSE(fs::exists(scratch.path() / "trace.json"));
}

TEST(Record, ARunThatGoesOnDropsTheRecordsOfStepsThatItDoesAgain) {
  const ScratchFolder scratch;
  World world = World::alone();
  const Idle strategy;
  const RecordOptions options{.folder = scratch.path(), .epochs = kEpochs, .trace_steps = 0};
  {
    Record record(world, strategy, options);
    train(record);
  }
  std::ofstream(scratch.path() / "metrics.jsonl", std::ios::app) << R"({"step":5,"cut)";
  RecordOptions rest = options;
  rest.first_step = kBatches;
  Record record(world, strategy, rest);
  std::vector<std::int64_t> steps;
  for (const json& one : records_in(scratch.path())) steps.push_back(one.at("step"));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 10, 20, 23}));
  train(record, /*from_epoch=*/1);
  EXPECT_EQ(records_in(scratch.path()).size(), 7U);
}

TEST(Record, AFolderThatCannotBeMadeIsRefused) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "file") << "x";
  World world = World::alone();
  const Idle strategy;
  EXPECT_THROW(Record(world, strategy, {.folder = scratch.path() / "file" / "run"}), ConfigError);
}

// Files of this process cannot grow beyond a size: what a full disk looks like, for a while.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : ignored_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, ignored_);
  }

 private:
  rlimit before_{};
  void (*const ignored_)(int);
};

TEST(Record, AFullDiskEndsNoRun) {
  const ScratchFolder scratch;
  World world = World::alone();
  const Idle strategy;
  Record record(world, strategy, {.folder = scratch.path(), .epochs = kEpochs});
  record.step(at(0, 0), 1);
  {
    const FullDisk full(/*bytes=*/100);
    for (std::int64_t batch = 1; batch < kBatches; ++batch) record.step(at(0, batch), 1);
    record.end_epoch(1);
    EXPECT_NO_THROW(record.finish());
  }
  // There is room again. The line that was cut is no record; those after it are whole.
  for (std::int64_t batch = 0; batch < kBatches; ++batch) record.step(at(1, batch), 1);
  record.end_epoch(1);
  record.finish();
  std::ifstream stream(scratch.path() / "metrics.jsonl");
  std::vector<std::int64_t> steps;
  for (std::string line; std::getline(stream, line);) {
    const json one = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (one.is_object()) steps.push_back(one.at("step"));
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{0, 30, 40, 47}));
  EXPECT_EQ(read(scratch.path() / "summary.json").at("epochs"), 2);
  EXPECT_TRUE(fs::exists(scratch.path() / "report.html"));
}

std::string records_of(std::initializer_list<int> steps) {
  std::string lines;
  for (const int step : steps) lines += json{{"epoch", 0}, {"step", step}}.dump() + "\n";
  return lines;
}

TEST(RunFiles, LaterViewsBeginOnAFullDisk) {
  const ScratchFolder scratch;
  const fs::path file = scratch.path() / "metrics.jsonl";
  World world = World::alone();
  const auto metrics_of_later_view = [&](const std::string& before) {
    std::ofstream(file) << before;
    const FullDisk full(/*bytes=*/1);
    const RunFiles files(world, {.folder = scratch.path(),
                                 .first_step = 20,
                                 .views = {{.number = 2, .nodes = {0}}},
                                 .job = Membership::Job::kGoesOn});
    std::stringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  };
  EXPECT_EQ(metrics_of_later_view(records_of({0, 10, 20, 30})), records_of({0, 10}));
  // What needs room stays as it is.
  const std::string torn = records_of({0}) + "{\"epo\n" + records_of({10, 20});
  EXPECT_EQ(metrics_of_later_view(torn), torn);
}

TEST(Meter, KindsOfTimeAddUpAndTurnsOfOthersDoNotCount) {
  World world = World::alone();
  const Idle strategy({.background_seconds = 0.5, .bytes_between_nodes = 0});
  Meter meter(world, strategy, /*samples_per_step=*/10);
  const auto spend = [&](Track track) {
    const TimedSpan span(world.timeline(), track, "part", 0);
    pass_time(Seconds(0.002));
  };
  spend(Track::kWaiting);  // somebody else's
  meter.start();
  for (const Track track : {Track::kWaiting, Track::kCommunicating, Track::kData,
                            Track::kEvaluation, Track::kCheckpoint}) {
    spend(track);
  }
  meter.step();
  meter.stop();
  const TimeSpent first = meter.spent();
  spend(Track::kData);  // somebody else's
  const TimeSpent spent = meter.spent();
  EXPECT_EQ(spent.data, first.data);
  EXPECT_EQ(spent.seconds, first.seconds);
  EXPECT_GE(spent.exposed_communication, 0.004);
  for (const double part : {spent.data, spent.evaluation, spent.checkpoint}) EXPECT_GE(part, 0.002);
  EXPECT_GE(spent.compute(), 0);
  // Of half a second beneath, what was waited for is not hidden.
  const double waited = spent.exposed_communication;
  EXPECT_LT(spent.hidden_communication, 0.5 - 0.002 + 1e-9);
  EXPECT_GT(spent.hidden_communication, 0.5 - waited);
  const Summary summary = meter.summary();
  EXPECT_DOUBLE_EQ(summary.samples_per_second * summary.seconds, 10);
  EXPECT_DOUBLE_EQ(summary.wait_seconds, waited);
}

TEST(Meter, CausesAddUpToWhatWasExposed) {
  World world = World::alone();
  const Idle strategy;
  Meter meter(world, strategy, 1);
  meter.start();
  for (std::size_t track = 0; track < kTracks; ++track) {
    const TimedSpan span(world.timeline(), static_cast<Track>(track), "part", 0);
    pass_time(Seconds(0.001));
  }
  meter.stop();
  const TimeSpent spent = meter.spent();
  double sum = 0;
  for (const double seconds : spent.exposed_by_cause) {
    EXPECT_GE(seconds, 0.001);
    sum += seconds;
  }
  EXPECT_DOUBLE_EQ(sum, spent.exposed_communication);
  EXPECT_DOUBLE_EQ(sum, world.timeline().waited());
  const Summary summary = meter.summary();
  EXPECT_EQ(summary.time_budget.front().exposed_by_cause, spent.exposed_by_cause);
  const json merges = json::parse(text_of(summary))["time_budget"][0]["exposed_by_cause"]["merges"];
  EXPECT_DOUBLE_EQ(merges.get<double>(),
                   spent.exposed_by_cause[static_cast<std::size_t>(Cause::kMerges)]);
}

TEST(Meter, WorkIsWhatIsNotWaiting) {
  World world = World::alone();
  const Idle strategy;
  Meter meter(world, strategy, 1);
  meter.start();
  const auto begin = Clock::now();
  {
    const TimedSpan span(world.timeline(), Track::kWaiting, "gradients", 0);
    pass_time(Seconds(0.02));
  }
  pass_time(Seconds(0.002));
  const auto [whole, worked] = meter.step_seconds();
  EXPECT_GE(whole, 0.022);
  EXPECT_GE(worked, 0.002);
  EXPECT_LE(worked, since(begin).count() - 0.02);
}

// Numbers in a world are others in the next view.
TEST(StepTimes, NamesRanksAndNodesAsTheyWereStarted) {
  const auto view = std::make_shared<ScriptedView>(ScriptedView::Script{.nodes = 2});
  run_ranks(in_view({"b", "c"}, {{"b", 1}, {"c", 2}}, view), [](World& world) {
    const Idle strategy;
    Meter meter(world, strategy, 1);
    meter.start();
    StepTimes times(world, "test");
    for (std::int64_t step = 0; step < 3; ++step) {
      times.add(step, {.whole = 1e3, .worked = world.rank() == 1 ? 0.3 : 0.1});  // due in each step
      const auto heard = times.collect();
      times.tell(step);
      if (heard) meter.hear(heard->late, heard->worked);
    }
    const Summary summary = meter.summary();
    ASSERT_EQ(summary.late.size(), 2U);
    EXPECT_EQ(summary.late[1].rank, 201);
    EXPECT_EQ(summary.late[1].node, 2);
    EXPECT_EQ(summary.late[1].lateness.times, 1);
    EXPECT_EQ(summary.late[0].lateness.times, 0);
    const json budget = json::parse(text_of(summary))["time_budget"];
    EXPECT_EQ(budget[0]["node"], 1);
    EXPECT_EQ(budget[1]["node"], 2);
    meter.stop();
  });
}

TEST(StepTimes, NamesTheRankThatTookLongestAndByHowMuch) {
  run_ranks({.ranks = 4}, [](World& world) {
    StepTimes times(world, "test");
    std::optional<Heard> heard;
    std::optional<std::int64_t> told;
    for (std::int64_t step = 0; step <= 24; ++step) {
      // Rank 2 takes three times as long as the others in step 13.
      times.add(step, {.whole = 0.1, .worked = world.rank() == 2 && step == 13 ? 0.3 : 0.1});
      if (!times.due(step)) continue;
      const auto now = times.collect();
      EXPECT_EQ(now.has_value(), told.has_value());
      if (now) {
        EXPECT_EQ(now->late.has_value(), *told > 0);  // the first step does not count
        EXPECT_EQ(now->largest_word, static_cast<double>(10 * *told + 3));
      }
      if (step == 24) heard = now;  // told at step 16: steps 9 to 16
      told = step;
      times.tell(step, static_cast<double>(10 * step + world.rank()));
    }
    ASSERT_TRUE(heard && heard->late);
    EXPECT_EQ(heard->late->rank, 2);
    EXPECT_EQ(heard->late->step, 13);
    EXPECT_NEAR(heard->late->seconds, 0.2, 1e-12);
    EXPECT_NEAR(heard->worked[2], 1.0 / 8, 1e-12);
    EXPECT_NEAR(heard->worked[0], 0.1, 1e-12);
  });
}

}  // namespace
}  // namespace daso::test
