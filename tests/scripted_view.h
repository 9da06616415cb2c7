// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "daso/comm/views.h"
#include "run_ranks.h"

namespace daso::test {

// The launchers of one view by script, for all ranks of a test's world: an exchange is committed
// when all nodes have prepared it, unless the script says otherwise.
class ScriptedView final : public Decisions {
 public:
  struct Script {
    int nodes = 2;
    std::set<std::int64_t> refused;    // do not begin in this view
    std::set<std::int64_t> abandoned;  // begin, but do not count
    std::set<std::int64_t> in_vain;    // the same, and nobody takes part
    // Others are abandoned once a rank has told of trouble: the launchers know of none themselves.
    bool ended = false;                // the view has, once something was exchanged in it
  };
  explicit ScriptedView(Script script) : script_(std::move(script)) {}

  Start start(std::int64_t exchange) override;
  void prepared(std::int64_t exchange) override;
  bool committed(std::int64_t exchange, Seconds limit) override;
  void trouble(const std::string& what) override;
  bool ended() override;
  void when_ended(std::function<void()>) override {}  // its ranks find out by asking

  int nodes_that_prepared(std::int64_t exchange);

 private:
  const Script script_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, int> prepared_;
  bool troubled_ = false;
};

// Ranks of a world for a view; nodes have the ids that stand behind their names in `ids`.
RankOptions in_view(std::vector<std::string> nodes, const std::map<std::string, int>& ids,
                    std::shared_ptr<Decisions> decisions);

}  // namespace daso::test
