// SPDX-License-Identifier: Apache-2.0
#include "scripted_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "daso/base/error.h"

namespace daso::test {

Start ScriptedView::start(std::int64_t exchange) {
  if (script_.in_vain.contains(exchange)) return Start::kInVain;
  return script_.refused.contains(exchange) ? Start::kEnded : Start::kGoes;
}

void ScriptedView::prepared(std::int64_t exchange) {
  {
    const std::lock_guard lock(mutex_);
    ++prepared_[exchange];
  }
  changed_.notify_all();
}

bool ScriptedView::committed(std::int64_t exchange, Seconds limit) {
  if (script_.abandoned.contains(exchange) || script_.in_vain.contains(exchange)) return false;
  std::unique_lock lock(mutex_);
  const auto is_prepared = [&] { return prepared_[exchange] == script_.nodes; };
  if (changed_.wait_for(lock, limit, [&] { return is_prepared() || troubled_; })) {
    return is_prepared();
  }
  throw PeerError(fmt::format("exchange {} is not prepared by all nodes", exchange));
}

void ScriptedView::trouble(const std::string& /*what*/) {
  {
    const std::lock_guard lock(mutex_);
    troubled_ = true;
  }
  changed_.notify_all();
}

bool ScriptedView::ended() {
  const std::lock_guard lock(mutex_);
  return script_.ended && !prepared_.empty();
}

int ScriptedView::nodes_that_prepared(std::int64_t exchange) {
  const std::lock_guard lock(mutex_);
  return prepared_[exchange];
}

RankOptions in_view(std::vector<std::string> nodes, const std::map<std::string, int>& ids,
                    std::shared_ptr<Decisions> decisions) {
  WorldView view{.decisions = std::move(decisions)};
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
    const int id = ids.at(nodes[rank]);
    view.rank_ids.push_back(100 * id + static_cast<int>(rank));
    const auto begin = nodes.begin();
    if (std::find(begin, begin + static_cast<std::ptrdiff_t>(rank), nodes[rank]) ==
        begin + static_cast<std::ptrdiff_t>(rank)) {
      view.node_ids.push_back(id);  // nodes are numbered by their first ranks
    }
  }
  const int ranks = static_cast<int>(nodes.size());
  return {.ranks = ranks, .nodes = std::move(nodes), .edit = [view](WorldOptions& options) {
            options.view = view;
          }};
}

}  // namespace daso::test
