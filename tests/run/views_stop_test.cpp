// SPDX-License-Identifier: Apache-2.0
// A run that is told to stop while its nodes are not at the same step.
#include <gtest/gtest.h>

#include <csignal>

#include "run_ranks.h"
#include "runs.h"
#include "scratch_folder.h"
#include "scripted_view.h"

namespace daso::test {
namespace {

const std::map<std::string, int> kTwoIds = {{"a", 0}, {"b", 1}};

// Of two nodes, by their numbers.
class TwoRuns {
 public:
  explicit TwoRuns(const Settings& settings) {
    for (auto& run : runs_) run = std::make_unique<daso::Run>(settings);
  }
  daso::Run& of(const World& world) { return *runs_[static_cast<std::size_t>(world.rank())]; }
  const RunPlace& place(std::size_t node) const { return runs_[node]->place(); }

 private:
  std::array<std::unique_ptr<daso::Run>, 2> runs_;
};

// Each with what its own launcher says of the view, whose first exchange is this one.
RankOptions in_views(std::int64_t first, std::array<std::shared_ptr<ScriptedView>, 2> decisions) {
  RankOptions ranks = in_view({"a", "b"}, kTwoIds, decisions[0]);
  ranks.limit = Seconds(3);
  ranks.edit = [edit = ranks.edit, first, decisions](WorldOptions& options) {
    edit(options);
    options.view->first_exchange = first;
    options.view->decisions = decisions[static_cast<std::size_t>(options.place.rank)];
  };
  return ranks;
}

TEST(ViewsStop, AllStopAfterTheSameStep) {
  const ScratchFolder folder;
  Settings settings = small_run(folder.path() / "run");
  settings.strategy = "daso";
  settings.warmup_epochs = 0;
  settings.schedule = ScheduleKind::kFixed;
  settings.skip = 3;
  settings.wait = 2;
  TwoRuns runs(settings);
  // Exchange 1 has been begun by node a alone when the view ends: it notices two steps later.
  using Script = ScriptedView::Script;
  const auto first =
      in_views(0, {std::make_shared<ScriptedView>(Script{.nodes = 1, .abandoned = {1}}),
                   std::make_shared<ScriptedView>(Script{.nodes = 1, .refused = {1}})});
  run_ranks(first, [&](World& world) {
    Session session(world, runs.of(world));
    while (session.train_epoch([](const Progress&) {}, {})) {
    }
    session.leave();
  });
  ASSERT_EQ(runs.place(0).batch, runs.place(1).batch + 2);
  const auto both = std::make_shared<ScriptedView>(Script{.nodes = 2});
  run_ranks(in_views(2, {both, both}), [&](World& world) {
    Session session(world, runs.of(world));
    const Summary end = session.train([](const Progress&) {}, [] { return SIGTERM; });
    EXPECT_EQ(end.exit, settings.stopped_exit);
  });
  EXPECT_EQ(runs.place(0), runs.place(1));
  EXPECT_TRUE(newest_checkpoint(settings.out / "checkpoints"));
}

}  // namespace
}  // namespace daso::test
