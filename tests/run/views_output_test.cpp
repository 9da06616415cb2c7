// SPDX-License-Identifier: Apache-2.0
// What people see of a run whose nodes come and go.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "daso/base/text.h"
#include "daso/run/train_output.h"
#include "run_ranks.h"
#include "runs.h"
#include "scratch_folder.h"
#include "scripted_view.h"
#include "verify/captured_output.h"

namespace daso::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

const std::map<std::string, int> kIds = {{"a", 0}, {"b", 1}, {"c", 2}};

struct View {
  std::int64_t number = 0;
  std::vector<std::string> nodes;  // of one rank each
  int epochs = 1;                  // that are trained in it; all that are left if it is the last
  bool last = false;
};

// The runs of a job by the ids of their nodes, and what rank 0 prints of them.
class ViewsOutput : public testing::Test {
 protected:
  ViewsOutput() {
    Settings settings = small_run(folder_.path() / "run");
    settings.epochs = 4;
    settings.strategy = "daso";
    settings.warmup_epochs = 0;
    for (const auto& [name, id] : kIds) runs_[id] = std::make_unique<daso::Run>(settings);
  }

  // What is printed in the view.
  std::string train_in(const View& view) {
    const auto decisions = std::make_shared<ScriptedView>(
        ScriptedView::Script{.nodes = static_cast<int>(view.nodes.size())});
    RankOptions ranks = in_view(view.nodes, kIds, decisions);
    ranks.edit = [edit = ranks.edit, number = view.number](WorldOptions& options) {
      edit(options);
      options.view->number = number;
    };
    const verify::CapturedOutput output_of_all;
    run_ranks(ranks, [&](World& world) {
      daso::Run& run = *runs_.at(world.node_id());
      if (!takeover_in(world, run).any) prepare_output(world, run);
      Session session(world, run);
      std::optional<TrainOutput> output;
      if (world.rank() == 0) output.emplace(world, session.course(), OutputOptions{});
      const auto tell = [&](const Progress& now) { (*output)(now); };
      for (int epoch = 0; view.last || epoch < view.epochs; ++epoch) {
        if (!session.train_epoch(tell, {})) break;
      }
      if (!view.last) {
        session.leave();
        if (output) output->leave();
        return;
      }
      Summary summary = session.finish();
      if (output) output->end(summary);
    });
    return output_of_all.text();
  }

  // A checkpoint that one node begins in a view, and that the other has no part in any more.
  void break_off_checkpoint() {
    const auto decisions = std::make_shared<ScriptedView>(ScriptedView::Script{.nodes = 2});
    run_ranks(in_view({"a", "b"}, kIds, decisions), [&](World& world) {
      daso::Run& run = *runs_.at(world.node_id());
      Course course(world, run, /*batches=*/8);
      if (world.rank() == 0) course.checkpoint();
      course.leave();
    });
  }

  fs::path file(const char* name) const { return folder_.path() / "run" / name; }
  json read(const char* name) const { return json::parse(bytes_of(file(name))); }

 private:
  const ScratchFolder folder_;
  std::map<int, std::unique_ptr<daso::Run>> runs_;
};

// Node 0 is lost: its place as rank 0 is node 1's, which has printed nothing before.
TEST_F(ViewsOutput, SaysOnceWhatTheRunIsAndThenWhoHasComeAndGone) {
  EXPECT_THAT(train_in({.number = 1, .nodes = {"a", "b", "c"}}), HasSubstr("3 ranks on 3 nodes"));
  const std::string configuration = bytes_of(file("config.toml"));
  const std::string second = train_in({.number = 2, .nodes = {"b", "c"}});
  EXPECT_THAT(second,
              HasSubstr("view 2: 2 of 3 nodes (node 0 lost); going on with step 8, epoch 2"));
  EXPECT_THAT(second, Not(HasSubstr("ranks on")));
  EXPECT_THAT(second, Not(HasSubstr("batch-size")));
  const std::string end = train_in({.number = 2, .nodes = {"b", "c"}, .last = true});
  EXPECT_THAT(end, Not(HasSubstr("going on")));  // dealt anew, in the same view
  EXPECT_THAT(end, HasSubstr("2 views\n  view 1: 3 of 3 nodes, from step 0\n"));
  EXPECT_EQ(bytes_of(file("config.toml")), configuration);
}

TEST_F(ViewsOutput, IsInTheFiles) {
  train_in({.number = 1, .nodes = {"a", "b"}});
  train_in({.number = 3, .nodes = {"b"}, .last = true});
  const json summary = read("summary.json");
  ASSERT_EQ(summary.at("views").size(), 2);
  EXPECT_EQ(summary["views"][1]["nodes"], json({1}));
  EXPECT_EQ(summary["views"][1]["lost"], json({0}));
  EXPECT_FALSE(summary["views"][0].contains("stall"));
  EXPECT_GT(summary["views"][1].at("stall"), 0.0);
  EXPECT_EQ(summary.at("unseen_examples"), 0);  // the epoch was over
  EXPECT_EQ(read("status.json").at("view").at("number"), 3);
  EXPECT_EQ(read("status.json").at("view").at("of"), 2);
  EXPECT_EQ(read("status.json").at("ranks").at(0).at("node"), 1);  // as it was started
  const std::vector<std::string> records = split(bytes_of(file("metrics.jsonl")), '\n');
  EXPECT_EQ(json::parse(records.front()).at("nodes"), 2);
  EXPECT_EQ(json::parse(records[records.size() - 2]).at("nodes"), 1);
  EXPECT_THAT(bytes_of(file("membership.jsonl")), HasSubstr(R"("outcome":"committed","view":3})"));
}

TEST_F(ViewsOutput, HasACheckpointThatAViewHasBrokenOffInTheNext) {
  break_off_checkpoint();
  const fs::path folder = file("checkpoints");
  EXPECT_TRUE(complete_checkpoints(folder).empty());
  train_in({.number = 2, .nodes = {"a", "b"}});
  EXPECT_EQ(complete_checkpoints(folder).size(), 1);
  train_in({.number = 3, .nodes = {"a", "b"}, .last = true});
  EXPECT_EQ(complete_checkpoints(folder).size(), 2);  // that of the end, and none in between
}

// The step is computed again in the next view.
TEST(StepThatIsBrokenOff, LeavesNoTraceInBuffers) {
  const ScratchFolder folder;
  Settings settings = small_run(folder.path() / "run");
  settings.model = "resnet20";
  const auto decisions = std::make_shared<ScriptedView>(ScriptedView::Script{.nodes = 1});
  run_ranks(in_view({"a"}, kIds, decisions), [&](World& world) {
    daso::Run run(settings);
    Course course(world, run, /*batches=*/4);
    const State before = run.state().own;
    course.begin_turn({});
    course.begin_step();
    for (const auto& [name, buffer] : run.model().named_buffers()) buffer.add_(1);  // forward
    course.leave();
    EXPECT_TRUE(before.contains("model.bn1.num_batches_tracked"));
    for (const auto& [name, tensor] : before) {
      EXPECT_TRUE(at::equal(tensor, run.left()->own.at(name))) << name;
    }
  });
}

}  // namespace
}  // namespace daso::test
