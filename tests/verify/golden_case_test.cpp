// SPDX-License-Identifier: Apache-2.0
#include "verify/golden_case.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "daso/base/error.h"

namespace daso::verify {
namespace {

using nlohmann::json;

// A file that is gone with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / fmt::format("golden_{}.json", ::getpid())) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::vector<GoldenCase> read(const std::string& text) {
  return read_golden(TemporaryFile(text).path());
}

// What stands after the file's name in the message; empty if the text is understood.
std::string refusal(const std::string& text) {
  const TemporaryFile file(text);
  try {
    read_golden(file.path());
  } catch (const ConfigError& error) {
    const std::string message = error.what();
    EXPECT_TRUE(message.starts_with(file.path())) << message;
    return message.substr(file.path().size());
  }
  return "";
}

std::string golden(const std::string& name) {
  return (std::filesystem::path(DASO_GOLDEN) / name).string();
}

json document(const std::string& name) {
  std::ifstream file(golden(name));
  return json::parse(file);
}

TEST(GoldenCase, TrainingCaseIsReadInFull) {
  const std::vector<GoldenCase> cases = read_golden(golden("unequal_nodes_all_phases.json"));
  ASSERT_EQ(cases.size(), 1U);
  EXPECT_EQ(cases[0].name, "unequal_nodes_all_phases");
  const auto& training = std::get<TrainingCase>(cases[0].what);
  EXPECT_EQ(training.nodes, (std::vector<int>{3, 1}));
  EXPECT_EQ(training.ranks(), 4);
  EXPECT_EQ(training.epochs(), 3);
  EXPECT_EQ(training.steps(), 15);
  EXPECT_EQ(training.momentum, 0.9);
  EXPECT_EQ(training.weight_decay, 0.001);
  EXPECT_EQ(training.merge, MergeRule::kCorrected);
  EXPECT_EQ(training.schedule.listed[1],
            (EpochPlan{.phase = Phase::kCycling, .cadence = {.skip = 3, .wait = 2}}));
  EXPECT_EQ(training.parameters.size(), 15U);
  EXPECT_EQ(training.events.front(), (GoldenEvent{.step = 0, .what = "blocking"}));
}

TEST(GoldenCase, KindsAreToldApartByTheirFields) {
  const auto kinds = [](const std::string& name) {
    std::set<std::size_t> found;
    for (const GoldenCase& one : read_golden(golden(name))) found.insert(one.what.index());
    return found;
  };
  EXPECT_EQ(kinds("one_node.json"), (std::set<std::size_t>{0}));
  EXPECT_EQ(kinds("schedules.json"), (std::set<std::size_t>{1}));
  EXPECT_EQ(kinds("periods.json"), (std::set<std::size_t>{2}));
  EXPECT_EQ(kinds("wire.json"), (std::set<std::size_t>{3}));
  EXPECT_EQ(read_golden(golden("wire.json")).at(1).name, "wire 1");
}

TEST(GoldenCase, ListMayHoldCasesOfAllKinds) {
  const json all = {document("schedules.json")[0], document("one_node.json"),
                    document("wire.json")[0], document("periods.json")[0]};
  const std::vector<GoldenCase> cases = read(all.dump());
  ASSERT_EQ(cases.size(), 4U);
  EXPECT_EQ(cases[1].what.index(), 0U);
  EXPECT_EQ(cases[1].index, 1U);
}

TEST(GoldenCase, FileThatIsNoListOfCasesIsRefused) {
  EXPECT_NE(refusal("{\"name\": ").find(": is no JSON from byte 10 on"), std::string::npos);
  EXPECT_NE(refusal("").find(": is no JSON from byte 1 on"), std::string::npos);
  EXPECT_NE(refusal("{\"lr\": 1e999}").find(": is no JSON: the number that ends at byte 12 "),
            std::string::npos);
  EXPECT_EQ(refusal("3"), ": holds neither a golden case nor a list of them");
  EXPECT_EQ(refusal("[]"), ": holds no golden case");
  EXPECT_EQ(refusal("[3]"), "[0]: takes an object, got 3");
  EXPECT_EQ(refusal("{}"), ": lacks the field 'name'");
  EXPECT_THROW(read_golden("/nowhere/golden.json"), ConfigError);
  EXPECT_THROW(read_golden("/"), ConfigError);
}

// A change that makes a file wrong, and what is said about it.
struct Mistake {
  std::function<void(json&)> make;
  std::string said;
};

void expect_refused(const std::string& file, const std::vector<Mistake>& mistakes) {
  const json right = document(file);
  ASSERT_EQ(refusal(right.dump()), "");
  for (const Mistake& mistake : mistakes) {
    json wrong = right;
    mistake.make(wrong);
    EXPECT_EQ(refusal(wrong.dump()), mistake.said);
  }
}

TEST(GoldenCase, MistakesInTrainingCasesAreNamed) {
  const auto set = [](const char* path, const json& value) {
    return [path, value](json& one) { one[json::json_pointer(path)] = value; };
  };
  expect_refused(
      "unequal_nodes_all_phases.json",
      {{[](json& one) { one.erase("targets"); }, ": lacks the field 'targets'"},
       {[](json& one) { one.erase("tolerance"); }, ": lacks the field 'tolerance'"},
       {[](json& one) { one["expect"].erase("events"); }, ": expect: lacks the field 'events'"},
       {set("/momentun", 0.9), ": has the unknown field 'momentun'; did you mean momentum?"},
       {set("/expect/extra", 1), ": expect: has the unknown field 'extra'"},
       {set("/name", 3), ": name: takes a text, got 3"},
       {set("/nodes", json::array()), ": nodes: a world has at least 1 node, got 0"},
       {set("/nodes/1", 0), ": nodes[1]: takes a whole number of at least 1, got 0"},
       {set("/nodes/1", 1.5), ": nodes[1]: takes a whole number of at least 1, got 1.5"},
       {set("/nodes", 4), ": nodes: takes a list, got 4"},
       {set("/nodes/0", 2000000000), ": nodes: 2000000001 ranks are too many"},
       {set("/nodes/0", 4), ": targets: takes one list for each of the 5 ranks, got 4"},
       {[](json& one) { one["targets"][2].push_back(1); },
        ": targets[2]: takes a list of 1, got one of 2"},
       {set("/targets/3/0", "x"), ": targets[3][0]: takes a number, got \"x\""},
       {set("/targets/3/0", 1e39), ": targets[3][0]: 1e+39 is too large for float32"},
       {set("/start", json::array()), ": start: a model has at least 1 parameter"},
       {set("/curvature", {1, 1}), ": curvature: takes a list of 1, got one of 2"},
       {set("/lr", nullptr), ": lr: takes a number, got null"},
       {set("/lr", -0.1), ": lr: takes a number of at least 0, got -0.1"},
       {set("/momentum", 1), ": momentum: must be below 1"},
       {set("/merge", "papr"),
        ": merge: takes paper, corrected, got \"papr\"; did you mean paper?"},
       {set("/batches", 0), ": batches: takes a whole number of at least 1, got 0"},
       {set("/schedule", json::array()), ": schedule: a run has at least 1 epoch"},
       {set("/schedule/1/0", "cyclin"),
        ": schedule[1][0]: takes warmup, cycling, cooldown, got \"cyclin\"; did you mean cycling?"},
       {set("/schedule/1/2", 4),
        ": schedule[1]: wait must lie in 1 ... skip (3), got 4: more than one exchange in flight "
        "diverges"},
       {set("/schedule/1/1", 0), ": schedule[1]: skip must be at least 1, got 0"},
       {set("/schedule/0/1", 3),
        ": schedule[0]: warmup exchanges nothing: its skip and wait are 0, got 3 and 0"},
       {set("/schedule/0", {"warmup", 0}), ": schedule[0]: takes a list of 3, got one of 2"},
       {set("/tolerance", 0), ": tolerance: must be above 0, got 0"},
       {[](json& one) { one["expect"]["parameters"].erase(3); },
        ": expect.parameters: takes a list of 15, got one of 14"},
       {[](json& one) { one["expect"]["parameters"][3].erase(1); },
        ": expect.parameters[3]: takes a list of 2, got one of 1"},
       {[](json& one) { one["expect"]["parameters"][3][1].erase(0); },
        ": expect.parameters[3][1]: takes a list of 1, got one of 0"},
       {set("/expect/events", 1), ": expect.events: takes a list, got 1"},
       {set("/expect/events/0/do", "block"),
        ": expect.events[0].do: takes blocking, merge, start, exchange, got \"block\""},
       {[](json& one) { one["expect"]["events"][0].erase("do"); },
        ": expect.events[0]: lacks the field 'do'"},
       {set("/expect/events/0/speakers", {0, 0}),
        ": expect.events[0]: has the unknown field 'speakers'"},
       {set("/expect/events/0/step", -1),
        ": expect.events[0].step: takes a whole number of at least 0, got -1"}});
}

TEST(GoldenCase, MistakesInOtherCasesAreNamed) {
  expect_refused(
      "schedules.json",
      {{[](json& all) { all[2].erase("warmup"); }, "[2]: lacks the field 'warmup'"},
       {[](json& all) { all[2]["patient"] = 1; },
        "[2]: has the unknown field 'patient'; did you mean patience?"},
       {[](json& all) { all[0]["losses"].erase(0); },
        "[0]: losses: takes a list of 30, got one of 29"},
       {[](json& all) { all[0]["expect"].erase(0); },
        "[0]: expect: takes a list of 30, got one of 29"},
       {[](json& all) { all[0]["wait"] = 5; },
        "[0]: wait must lie in 1 ... skip (4), got 5: more than one exchange in flight diverges"}});
  expect_refused("periods.json",
                 {{[](json& all) { all[1]["learning_rates"].erase(0); },
                   "[1]: learning_rates: takes one for each step of whole epochs of 24, got " +
                       std::to_string(document("periods.json")[1]["learning_rates"].size() - 1)},
                  {[](json& all) { all[1]["expect"][2] = {1}; },
                   "[1]: expect[2]: takes a list of 2, got one of 1"},
                  {[](json& all) { all[1].erase("alpha"); }, "[1]: lacks the field 'alpha'"}});
  expect_refused("wire.json",
                 {{[](json& all) { all[0]["rounds"][0].erase("rest"); },
                   "[0]: rounds[0]: lacks the field 'rest'"},
                  {[](json& all) { all[0]["elements"] = 301; },
                   "[0]: rounds[0].differences[0]: takes a list of 301, got one of 300"},
                  {[](json& all) { all[0]["rounds"][0]["q"][1][7] = 0.5; },
                   "[0]: rounds[0].q[1][7]: takes a whole number of at least -2147483648, got 0.5"},
                  {[](json& all) { all[0]["rounds"] = json::array(); },
                   "[0]: rounds: there is at least 1 round, got none"}});
}

}  // namespace
}  // namespace daso::verify
