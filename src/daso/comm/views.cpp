// SPDX-License-Identifier: Apache-2.0
#include "daso/comm/views.h"

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "daso/base/error.h"
#include "daso/comm/node_link.h"

namespace daso {

using nlohmann::json;

std::string text_of(const NextView& view) {
  json nodes = json::array();
  for (const NextView::Node& node : view.nodes) {
    nodes.push_back({{"id", node.id}, {"ranks", node.ranks}, {"first_rank", node.first_rank}});
  }
  json decided = json::array();
  for (const DecidedView& one : view.decided) {
    decided.push_back({one.number, one.first_exchange, one.abandoned});
  }
  return json{{"number", view.number},
              {"first_exchange", view.first_exchange},
              {"nodes", nodes},
              {"joined", view.joined},
              {"left", view.left},
              {"decided", decided},
              {"store", view.store.text()},
              {"last", view.last}}
      .dump();
}

NextView view_in(const std::string& text) {
  const json fields = json::parse(text);
  NextView view{.number = fields.at("number"),
                .first_exchange = fields.at("first_exchange"),
                .joined = fields.at("joined"),
                .left = fields.at("left"),
                .store = parse_address(fields.at("store")),
                .last = fields.at("last")};
  for (const json& node : fields.at("nodes")) {
    view.nodes.push_back({node.at("id"), node.at("ranks"), node.at("first_rank")});
  }
  for (const json& one : fields.at("decided")) {
    view.decided.push_back({one.at(0), one.at(1), one.at(2)});
  }
  return view;
}

std::string part_of_view(std::int64_t number) { return fmt::format("view{:019}", number); }

WorldOptions options_in(const NextView& view, WorldOptions options, int rank_id,
                        std::shared_ptr<Decisions> decisions) {
  WorldView world{.number = view.number,
                  .first_exchange = view.first_exchange,
                  .joined = view.joined,
                  .left = view.left,
                  .decided = view.decided,
                  .copied = view.copied,
                  .key = options.place.job_token,
                  .replayed = view.replayed,
                  .end = view.end,
                  .decisions = std::move(decisions)};
  Place& place = options.place;
  options.node_of_rank.clear();
  place.rank = -1;
  for (const NextView::Node& node : view.nodes) {
    world.node_ids.push_back(node.id);
    for (int local = 0; local < node.ranks; ++local) {
      const int id = node.first_rank + local;
      if (id == rank_id) place.rank = static_cast<int>(world.rank_ids.size());
      world.rank_ids.push_back(id);
      options.node_of_rank.push_back(node.id);
    }
  }
  require(place.rank >= 0, "view {} has no place for rank {}", view.number, rank_id);
  place.size = static_cast<int>(world.rank_ids.size());
  if (!view.replayed) world.home = place.rendezvous;
  place.rendezvous = view.store;
  place.store_prefix = part_of_view(view.number);
  options.view = std::move(world);
  return options;
}

Views::Views(std::shared_ptr<Decisions> decisions, NodeLink& node, Seconds limit)
    : decisions_(std::move(decisions)), node_(node), limit_(limit) {}

Start Views::start(std::int64_t exchange) {
  // Both answers in one number.
  constexpr std::int64_t kJoinersWait = 8;
  const std::int64_t told = told_by_first([&] {
    const auto start = static_cast<std::int64_t>(decisions_->start(exchange - before_));
    return start + (decisions_->joiners_wait() ? kJoinersWait : 0);
  });
  joiners_wait_ = told >= kJoinersWait;
  return static_cast<Start>(told % kJoinersWait);
}

std::optional<std::vector<std::string>> Views::take_joiners() {
  if (!std::exchange(joiners_wait_, false)) return {};
  return node_.rank() == 0 ? decisions_->take_joiners() : std::vector<std::string>();
}

void Views::gives_copies(bool gives) {
  if (node_.rank() != 0 || std::exchange(gives_copies_, gives) == gives) return;
  decisions_->gives_copies(gives);
}

bool Views::committed(std::int64_t exchange) {
  return told_by_first([&] { return decisions_->committed(exchange - before_, limit_); }) != 0;
}

bool Views::ended() {
  return told_by_first([&] { return decisions_->ended(); }) != 0;
}

bool Views::all(bool own) {
  const at::Tensor words = at::zeros({node_.size()}, at::kLong);
  words[node_.rank()].fill_(own ? 1 : 0);
  node_.gather(words, {.slices = node_.size(), .first = 0}, limit_);
  return words.all().item<bool>();
}

void Views::prepared(std::int64_t exchange) {
  if (node_.rank() == 0) decisions_->prepared(exchange - before_);
}

std::int64_t Views::told_by_first(const std::function<std::int64_t()>& ask) {
  const at::Tensor answer = at::zeros({1}, at::kLong);
  if (node_.rank() == 0) answer.fill_(ask());
  node_.gather(answer, {.slices = 1, .first = 0}, limit_);
  return *answer.const_data_ptr<std::int64_t>();
}

}  // namespace daso
