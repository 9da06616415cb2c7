// SPDX-License-Identifier: Apache-2.0
#include "daso/run/views/takeover.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "daso/comm/gather_text.h"
#include "daso/run/views/copy_letters.h"
#include "daso/run/views/copy_receiver.h"

namespace daso {
namespace {

using nlohmann::json;

auto order_of(const json& one) {
  return std::tuple(one.at("epoch").get<int>(), one.at("batch").get<std::int64_t>());
}

std::optional<LeftAt> left_in(const json& one) {
  if (!one.at("left").get<bool>()) return {};
  LeftAt left{.epoch = one.at("epoch"), .batch = one.at("batch"), .equal = one.at("equal")};
  if (!one.at("put_off").is_null()) left.put_off = one.at("put_off").get<std::int64_t>();
  return left;
}

// What is for the record: each node's first rank speaks for it.
void read_places(const World& world, const std::vector<json>& all, Takeover& found) {
  const Topology& topology = world.topology();
  std::map<std::int64_t, DecidedView> decided;
  std::map<std::int64_t, ViewRecord> views;
  for (int node = 0; node < topology.nodes(); ++node) {
    const json& one = all[static_cast<std::size_t>(topology.ranks_of(node).front())];
    found.places.push_back(left_in(one));
    for (const json& view : one.at("decided")) {
      decided.emplace(view.at(0), DecidedView{view.at(0), view.at(1), view.at(2)});
    }
    if (!one.contains("views")) continue;
    for (const json& line : one.at("views")) {
      if (std::optional<ViewRecord> view = view_in_line(line)) views.emplace(view->number, *view);
    }
  }
  for (const auto& [number, view] : decided) found.decided.push_back(view);
  for (const auto& [number, view] : views) found.views.push_back(view);
}

// Where the copy was sent to that this rank has been given ahead; empty: it has none.
std::string place_of_copy(const WorldView& view, const Run& run, int node_id) {
  if (view.replayed) {
    const bool copied = std::ranges::find(view.copied, node_id) != view.copied.end();
    return copied ? replayed_place(view.number, node_id) : "";
  }
  return run.received() ? run.received()->place() : "";
}

// Nodes whose first rank has a copy of somebody who is still there and still differs from others
// are given the rest of it by that rank.
void find_copies(const std::vector<json>& all, const std::function<bool(const json&)>& is_needy,
                 Takeover& found) {
  const auto of_donor = [&](const std::string& place,
                            const json& one) -> std::optional<std::int64_t> {
    if (place.empty() || !one.contains("copies") || !one.at("left").get<bool>()) return {};
    if (one.at("equal").get<bool>() || is_needy(one)) return {};
    const auto copy = one.at("copies").find(place);
    return copy == one.at("copies").end() ? std::nullopt : std::optional(copy->get<std::int64_t>());
  };
  for (const int taker : found.takers) {
    const std::string place = all[static_cast<std::size_t>(taker)].value("copy", "");
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const std::optional<std::int64_t> exchange = of_donor(place, all[rank]);
      const bool donates = found.copied.empty() || found.donor == static_cast<int>(rank);
      if (!exchange || !donates) continue;
      found.donor = static_cast<int>(rank);
      found.copied.push_back({.taker = taker, .place = place, .exchange = *exchange});
    }
  }
  for (const Takeover::Copied& one : found.copied) std::erase(found.takers, one.taker);
}

}  // namespace

Takeover takeover_in(World& world, const Run& run) {
  Takeover found;
  if (!world.view()) return found;
  json own = {{"left", run.left().has_value()}, {"since_first", world.view()->since_first}};
  if (const std::optional<RunState>& left = run.left()) {
    own["epoch"] = left->place.epoch;
    own["batch"] = left->place.batch;
    own["equal"] = left->equal;
    own["put_off"] = nullptr;
    if (left->own.contains("strategy.cycle.put_off.exchange")) {
      own["put_off"] =
          integer_in(left->own, "strategy.cycle.put_off.exchange") - run.exchanges_before();
    }
    own["before"] = run.exchanges_before();
    own["rank_ids"] = run.deal().rank_ids;
    own["nodes"] = run.deal().nodes;
    if (run.last_step()) own["idle"] = since(*run.last_step()).count();
  }
  if (world.rank() == world.topology().ranks_of(world.node()).front()) {
    own["decided"] = json::array();
    for (const DecidedView& one : world.view()->decided) {
      own["decided"].push_back({one.number, one.first_exchange, one.abandoned});
    }
    for (const ViewRecord& view : run.views()) own["views"].push_back(line_of(view));
    const bool is_new = !run.left();
    if (is_new) own["copy"] = place_of_copy(*world.view(), run, world.node_id());
    own["copies"] = json::object();
    for (const JoinerCopies::Copy& copy : run.copies().all()) {
      if (copy.holds()) own["copies"][copy.place] = copy.exchange - run.exchanges_before();
    }
  }
  std::vector<json> all;
  for (const std::string& text : gather_text(world.everyone(), own.dump(), world.limit())) {
    all.push_back(json::parse(text));
  }
  read_places(world, all, found);
  for (const json& one : all) {
    if (!one.contains("idle")) continue;
    const auto idle = std::chrono::duration_cast<Clock::duration>(Seconds(one.at("idle")));
    const Clock::time_point last = Clock::now() - idle;
    found.stalled_since = std::min(found.stalled_since.value_or(last), last);
  }
  const json* furthest = nullptr;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].at("left").get<bool>()) continue;
    if (furthest != nullptr && order_of(all[rank]) <= order_of(*furthest)) continue;
    furthest = &all[rank];
    found.donor = static_cast<int>(rank);
  }
  if (furthest == nullptr) {
    // Who was there from the beginning and has nothing has not begun.
    found.lost = std::ranges::none_of(
        all, [](const json& one) { return one.at("since_first").get<bool>(); });
    return found;
  }
  found.any = true;
  found.furthest = {.epoch = furthest->at("epoch"), .batch = furthest->at("batch")};
  found.donor_equal = furthest->at("equal").get<bool>();
  found.exchanges_before = furthest->at("before").get<std::int64_t>();
  if (furthest->at("batch").get<std::int64_t>() > 0) {
    found.deal = {.rank_ids = furthest->at("rank_ids"), .nodes = furthest->at("nodes")};
  }
  const auto is_needy = [&](const json& one) {
    if (!one.at("left").get<bool>()) return true;
    // Where nodes differ each goes on from where it was, unless others have closed the epoch.
    return found.donor_equal ? order_of(one) < order_of(*furthest)
                             : one.at("epoch") < furthest->at("epoch");
  };
  found.needy = is_needy(own);
  const Topology& topology = world.topology();
  for (int node = 0; node < topology.nodes(); ++node) {
    std::vector<int> needy;
    for (const int rank : topology.ranks_of(node)) {
      if (is_needy(all[static_cast<std::size_t>(rank)])) needy.push_back(rank);
    }
    found.any_needy = found.any_needy || !needy.empty();
    const bool whole = needy.size() == topology.ranks_of(node).size();
    if (whole && node == world.node()) found.needy_home = true;
    if (whole) needy.resize(1);
    found.takers.insert(found.takers.end(), needy.begin(), needy.end());
  }
  std::ranges::sort(found.takers);
  if (!found.donor_equal) find_copies(all, is_needy, found);
  return found;
}

ViewRecord record_of(const World& world, const Takeover& takeover, const RunPlace& place) {
  const WorldView& view = *world.view();
  const Topology& topology = world.topology();
  ViewRecord record{.number = view.number,
                    .first_exchange = view.first_exchange,
                    .nodes = view.node_ids,
                    .places = takeover.places,
                    .left = view.left,
                    .joined = view.joined,
                    .epoch = place.epoch,
                    .batch = place.batch,
                    .step = place.step};
  for (int node = 0; node < topology.nodes(); ++node) {
    std::vector<int>& ids = record.ranks.emplace_back();
    for (const int rank : topology.ranks_of(node)) {
      ids.push_back(view.rank_ids.at(static_cast<std::size_t>(rank)));
    }
  }
  if (takeover.stalled_since) record.stall = since(*takeover.stalled_since).count();
  if (takeover.any_needy) {
    record.donor = view.node_ids.at(static_cast<std::size_t>(topology.node_of(takeover.donor)));
  }
  for (const Takeover::Copied& one : takeover.copied) {
    const auto node = static_cast<std::size_t>(topology.node_of(one.taker));
    record.copied[view.node_ids.at(node)] = one.exchange;
  }
  return record;
}

bool has_come_to(const RunPlace& place, const ViewEnd& end) {
  return std::tuple(place.epoch, place.batch) >= std::tuple(end.epoch, end.batch);
}

State spread(Communicator& ranks, int from, const State& own, Seconds limit) {
  const bool gives = ranks.rank() == from;
  std::string list;  // type, shape, name
  if (gives) {
    for (const auto& [name, tensor] : own) {
      list += fmt::format("{} {} {} {}\n", static_cast<int>(tensor.scalar_type()), tensor.dim(),
                          fmt::join(tensor.sizes(), " "), name);
    }
  }
  const std::vector<std::string> lists = gather_text(ranks, list, limit);
  std::istringstream lines(lists.at(static_cast<std::size_t>(from)));
  State state;
  int type = 0;
  std::size_t dimensions = 0;
  while (lines >> type >> dimensions) {
    std::vector<std::int64_t> sizes(dimensions);
    for (std::int64_t& size : sizes) lines >> size;
    std::string name;
    lines >> name;
    at::Tensor tensor = at::empty(sizes, static_cast<at::ScalarType>(type));
    if (gives) tensor.copy_(own.at(name));
    if (tensor.numel() > 0) {
      const Seconds longer = limit + time_for(static_cast<std::int64_t>(tensor.nbytes()));
      ranks.broadcast(tensor.flatten().view(at::kChar), from).wait(longer);
    }
    state[name] = tensor;
  }
  return state;
}

namespace {

bool is_parameter(const std::string& name) { return name.starts_with("model."); }

// What a joiner has not got by its copy. Its parameters are the copy's anchor. In a replay it has
// got nothing, and is given what was copied then.
RunState rest_of(const RunState& all, const JoinerCopies::Copy& copy) {
  RunState rest = all;
  std::erase_if(rest.common, [](const auto& entry) { return is_parameter(entry.first); });
  for (const auto& [name, tensor] : copy.state) {
    rest.common.erase(name);
    rest.own.erase(name);
    if (copy.sender) continue;
    rest.own[name] = name == kAnchorOfCopy ? all.own.at(name) : tensor;
  }
  if (copy.sender) rest.own["copy.answers"] = integer(copy.sender->hurry());
  return rest;
}

// The way back, on the joiner, whose own parameters stand where their values do not count.
void complete(RunState& rest, const Run& run, Seconds limit) {
  if (rest.own.contains("copy.answers")) {
    rest.own.merge(run.received()->take(integer_in(rest.own, "copy.answers"), limit));
    rest.own.erase("copy.answers");
  }
  for (const auto& [name, tensor] : run.state().common) {
    if (is_parameter(name)) rest.common[name] = tensor;
  }
}

}  // namespace

RunState give(World& world, const Takeover& takeover, Run& run, const RunState& own) {
  const bool gives = world.rank() == takeover.donor;
  RunState state;
  std::int64_t bytes = 0;
  if (gives) {
    for (const State* part : {&own.common, &own.own}) {
      for (const auto& [name, tensor] : *part) bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
  }
  const at::Tensor numbers = at::tensor({std::int64_t{own.place.epoch}, own.place.batch, bytes});
  world.everyone().broadcast(numbers, takeover.donor).wait(world.limit());
  const auto* number = numbers.const_data_ptr<std::int64_t>();
  state.place = {.epoch = static_cast<int>(number[0]), .batch = number[1]};
  const Seconds longer = world.limit() + time_for(number[2]);
  const auto hand_on = [&](Communicator& ranks, int from, const RunState& given) {
    state.common = spread(ranks, from, given.common, world.limit());
    state.own = spread(ranks, from, given.own, world.limit());
  };
  // It comes once to each node, which hands it on at home.
  const auto hand_to = [&](std::vector<int> among, const std::string& name, const RunState& given) {
    among.insert(std::ranges::lower_bound(among, takeover.donor), takeover.donor);
    if (!std::ranges::binary_search(among, world.rank())) return;
    const auto from = std::ranges::lower_bound(among, takeover.donor) - among.begin();
    hand_on(world.group(among, name), static_cast<int>(from), given);
  };
  const std::vector<int> home = world.topology().ranks_of(world.node());
  bool first_takes = std::ranges::binary_search(takeover.takers, home.front());
  if (!takeover.takers.empty()) hand_to(takeover.takers, "gift", own);
  for (const Takeover::Copied& one : takeover.copied) {
    const RunState rest = gives ? rest_of(own, *run.copies().find(one.place)) : RunState();
    hand_to({one.taker}, "rest", rest);
    if (one.taker == world.rank()) complete(state, run, longer);
    first_takes = first_takes || one.taker == home.front();
  }
  if (takeover.needy_home && first_takes && home.size() > 1) hand_on(world.node_group(), 0, state);
  // Those who need nothing wait as long as it may take.
  world.everyone().barrier().wait(longer);
  for (const Takeover::Copied& one : takeover.copied) run.copies().drop(one.place);
  run.receive(nullptr);
  return state;
}

}  // namespace daso
