// SPDX-License-Identifier: Apache-2.0
#include "daso/record/membership.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

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

ordered_json line_of(const ViewRecord& view, bool begins) {
  ordered_json line = {
      {"view", view.number},   {"first_exchange", view.first_exchange},
      {"nodes", view.nodes},   {"lost", view.lost},
      {"joined", view.joined}, {"donor", view.donor ? ordered_json(*view.donor) : ordered_json()},
      {"epoch", view.epoch},   {"batch", view.batch},
      {"step", view.step},     {"time", view.time}};
  if (begins) line["begins"] = true;
  return line;
}

// None for a line that is something else; throws for one that only looks like a view.
std::optional<ViewRecord> record_in(const json& line) {
  if (!line.is_object() || !line.contains("nodes")) return {};
  ViewRecord view{.number = line.at("view"),
                  .first_exchange = line.at("first_exchange"),
                  .nodes = line.at("nodes"),
                  .lost = line.at("lost"),
                  .joined = line.at("joined"),
                  .epoch = line.at("epoch"),
                  .batch = line.at("batch"),
                  .step = line.at("step"),
                  .time = line.at("time")};
  if (!line.at("donor").is_null()) view.donor = line.at("donor").get<int>();
  return view;
}

// Whoever has joined and was there before is another one than before.
void compare(ViewRecord& view, const ViewRecord& before) {
  for (const int id : view.nodes) {
    if (!has(before.nodes, id) && !has(view.joined, id)) view.joined.push_back(id);
  }
  for (const int id : before.nodes) {
    if (!has(view.nodes, id) || has(view.joined, id)) view.lost.push_back(id);
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
  const std::string lost = nodes_text(view.lost, "lost");
  const std::string joined = nodes_text(view.joined, "joined");
  const std::string both = lost + (lost.empty() || joined.empty() ? "" : "; ") + joined;
  return fmt::format("view {}: {} of {} nodes{}", view.number, view.nodes.size(), nodes,
                     both.empty() ? "" : fmt::format(" ({})", both));
}

std::vector<ViewRecord> read_views(const fs::path& file) {
  std::vector<ViewRecord> views;
  if (!is_there(file)) return views;
  for (const std::string& text : split(read_file(file), '\n')) {
    const std::optional<json> line = json_in(text);
    if (!line) continue;
    try {
      std::optional<ViewRecord> view = record_in(*line);
      if (!view) continue;
      if (line->contains("begins")) views.clear();
      views.push_back(*std::move(view));
    } catch (const json::exception&) {
      // Somebody else's line.
    }
  }
  return views;
}

std::size_t nodes_in(const std::vector<ViewRecord>& views) {
  std::set<int> ids;
  for (const ViewRecord& view : views) ids.insert(view.nodes.begin(), view.nodes.end());
  return ids.size();
}

Membership::Membership(const fs::path& folder, Job job, ViewRecord view)
    : views_(job == Job::kBegins ? std::vector<ViewRecord>{}
                                 : read_views(folder / "membership.jsonl")),
      file_(folder / "membership.jsonl") {
  entered_ = views_.empty() || views_.back().number != view.number;
  if (!entered_) return;
  if (views_.empty()) {
    view.joined.clear();  // nobody was there before
  } else {
    compare(view, views_.back());
  }
  view.time = Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
  file_.add(line_of(view, views_.empty()).dump());
  views_.push_back(std::move(view));
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
