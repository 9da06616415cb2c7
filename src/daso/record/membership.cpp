// SPDX-License-Identifier: Apache-2.0
#include "daso/record/membership.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <utility>

#include "daso/base/checked_json.h"
#include "daso/base/paths.h"
#include "daso/base/seconds.h"
#include "daso/base/text.h"

namespace daso {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

bool has(const std::vector<int>& ids, int id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

ordered_json json_of(const std::optional<LeftAt>& left) {
  if (!left) return {};
  return {{"epoch", left->epoch},
          {"batch", left->batch},
          {"equal", left->equal},
          {"put_off", left->put_off ? ordered_json(*left->put_off) : ordered_json()}};
}

ordered_json json_of(const ViewRecord& view) {
  ordered_json places = ordered_json::array();
  for (const std::optional<LeftAt>& one : view.places) places.push_back(json_of(one));
  return {{"view", view.number},
          {"first_exchange", view.first_exchange},
          {"nodes", view.nodes},
          {"ranks", view.ranks},
          {"places", std::move(places)},
          {"left", view.left},
          {"lost", view.lost},
          {"joined", view.joined},
          {"donor", view.donor ? ordered_json(*view.donor) : ordered_json()},
          {"copied", view.copied},
          {"epoch", view.epoch},
          {"batch", view.batch},
          {"step", view.step},
          {"stall", view.stall ? ordered_json(*view.stall) : ordered_json()},
          {"time", view.time}};
}

// What older files do not have is left empty.
void read_places(const json& line, ViewRecord& view) {
  if (!line.contains("places")) return;
  line.at("ranks").get_to(view.ranks);
  for (const json& one : line.at("places")) {
    std::optional<LeftAt>& left = view.places.emplace_back();
    if (one.is_null()) continue;
    left = {.epoch = one.at("epoch"), .batch = one.at("batch"), .equal = one.at("equal")};
    if (!one.at("put_off").is_null()) left->put_off = one.at("put_off").get<std::int64_t>();
  }
}

// None for a line that is something else; throws for one that only looks like a view.
std::optional<ViewRecord> record_in(const json& line) {
  if (!line.is_object() || !line.contains("nodes")) return {};
  ViewRecord view{.number = line.at("view"),
                  .first_exchange = line.at("first_exchange"),
                  .nodes = line.at("nodes"),
                  .lost = line.at("lost"),
                  .left = line.value("left", std::vector<int>{}),
                  .joined = line.at("joined"),
                  .epoch = line.at("epoch"),
                  .batch = line.at("batch"),
                  .step = line.at("step"),
                  .time = line.at("time")};
  if (!line.at("donor").is_null()) view.donor = line.at("donor").get<int>();
  view.copied = line.value("copied", std::map<int, std::int64_t>{});
  const auto stall = line.find("stall");
  if (stall != line.end() && !stall->is_null()) view.stall = stall->get<double>();
  read_places(line, view);
  return view;
}

// Calls `see` with each line of a file that is JSON; what it does not understand it may throw at.
void for_each_line(const fs::path& file, const std::function<void(const json&)>& see) {
  if (!is_there(file)) return;
  for (const std::string& text : split(read_file(file), '\n')) {
    const std::optional<json> line = json_in(text);
    if (!line) continue;
    try {
      see(*line);
    } catch (const json::exception&) {
      // Somebody else's line.
    }
  }
}

// Whoever has joined and was there before is another one than before.
void compare(ViewRecord& view, const ViewRecord& before) {
  for (const int id : view.nodes) {
    if (!has(before.nodes, id) && !has(view.joined, id)) view.joined.push_back(id);
  }
  const std::vector<int> on_purpose = std::exchange(view.left, {});
  for (const int id : before.nodes) {
    if (has(view.nodes, id) && !has(view.joined, id)) continue;
    (has(on_purpose, id) ? view.left : view.lost).push_back(id);
  }
}

const char* outcome_of(StrategyEvent::Kind kind) {
  switch (kind) {
    case StrategyEvent::Kind::kStart:
      return nullptr;  // not known yet
    case StrategyEvent::Kind::kMerge:
    case StrategyEvent::Kind::kAverage:
    case StrategyEvent::Kind::kAgree:
      return "committed";
    case StrategyEvent::Kind::kAbandon:
      return "abandoned";
    case StrategyEvent::Kind::kPutOff:
      return "put off";
  }
  return nullptr;
}

std::string nodes_text(const std::vector<int>& ids, const char* what) {
  return ids.empty()
             ? ""
             : fmt::format("node{} {} {}", ids.size() == 1 ? "" : "s", fmt::join(ids, ", "), what);
}

}  // namespace

std::string text_of(const ViewRecord& view, std::size_t nodes) {
  std::vector<std::string> changes = {nodes_text(view.lost, "lost"), nodes_text(view.left, "left"),
                                      nodes_text(view.joined, "joined")};
  std::erase(changes, "");
  return fmt::format("view {}: {} of {} nodes{}", view.number, view.nodes.size(), nodes,
                     changes.empty() ? "" : fmt::format(" ({})", fmt::join(changes, "; ")));
}

std::string line_of(const ViewRecord& view) { return json_of(view).dump(); }

std::optional<ViewRecord> view_in_line(const std::string& line) {
  const std::optional<json> fields = json_in(line);
  return fields ? record_in(*fields) : std::nullopt;
}

std::vector<ViewRecord> read_views(const fs::path& file) {
  std::vector<ViewRecord> views;
  for_each_line(file, [&](const json& line) {
    std::optional<ViewRecord> view = record_in(line);
    if (!view) return;
    if (line.contains("begins")) views.clear();
    views.push_back(*std::move(view));
  });
  return views;
}

std::vector<DecidedView> read_decided(const fs::path& file) {
  std::map<std::int64_t, DecidedView> decided;
  for_each_line(file, [&](const json& line) {
    if (line.contains("begins")) decided.clear();
    if (!line.contains("decided")) return;
    DecidedView one{.number = line.at("decided"),
                    .first_exchange = line.at("first_exchange"),
                    .abandoned = line.at("abandoned")};
    decided.emplace(one.number, std::move(one));
  });
  const auto values = std::views::values(decided);
  return {values.begin(), values.end()};
}

std::optional<StoppedAt> read_stop(const fs::path& file) {
  std::optional<StoppedAt> stop;
  for_each_line(file, [&](const json& line) {
    if (line.contains("begins")) stop.reset();
    if (!line.contains("stopped")) return;
    const json& place = line.at("stopped");
    stop = {.epoch = place.at("epoch"), .batch = place.at("batch")};
  });
  return stop;
}

std::size_t nodes_in(const std::vector<ViewRecord>& views) {
  std::set<int> ids;
  for (const ViewRecord& view : views) ids.insert(view.nodes.begin(), view.nodes.end());
  return ids.size();
}

Membership::Membership(const fs::path& folder, Job job, std::vector<ViewRecord> views,
                       const std::vector<DecidedView>& decided)
    : views_(job == Job::kBegins ? std::vector<ViewRecord>{}
                                 : read_views(folder / "membership.jsonl")),
      file_(folder / "membership.jsonl") {
  for (ViewRecord& view : views) {
    entered_ = views_.empty() || views_.back().number < view.number;
    if (entered_) enter(std::move(view));
  }
  const std::vector<DecidedView> known = read_decided(folder / "membership.jsonl");
  for (const DecidedView& one : decided) {
    if (std::ranges::find(known, one.number, &DecidedView::number) != known.end()) continue;
    file_.add(ordered_json{{"decided", one.number},
                           {"first_exchange", one.first_exchange},
                           {"abandoned", one.abandoned}}
                  .dump());
  }
}

void Membership::enter(ViewRecord view) {
  if (views_.empty()) {
    view.joined.clear();  // nobody was there before
    view.left.clear();
  } else {
    compare(view, views_.back());
  }
  view.time = Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
  ordered_json line = json_of(view);
  if (views_.empty()) line["begins"] = true;
  file_.add(line.dump());
  views_.push_back(std::move(view));
}

bool Membership::stopped(int epoch, std::int64_t batch) {
  return file_.add(ordered_json{{"stopped", {{"epoch", epoch}, {"batch", batch}}}}.dump());
}

bool Membership::add(const StrategyEvents& events) {
  bool written = true;
  for (const StrategyEvent& event : events) {
    const char* outcome = outcome_of(event.kind);
    if (outcome == nullptr) continue;
    const ordered_json line = {
        {"exchange", event.exchange}, {"outcome", outcome}, {"view", views_.back().number}};
    written = file_.add(line.dump()) && written;
  }
  return written;
}

}  // namespace daso
