// SPDX-License-Identifier: Apache-2.0
#include "daso/record/summary.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace daso {

namespace {

using nlohmann::ordered_json;

ordered_json causes_of(const TimeSpent& spent) {
  ordered_json causes = ordered_json::object();
  for (std::size_t i = 0; i < kCauses; ++i) causes[kCauseNames[i]] = spent.exposed_by_cause[i];
  return causes;
}

ordered_json budget_of(const std::vector<TimeSpent>& nodes) {
  ordered_json list = ordered_json::array();
  for (const TimeSpent& spent : nodes) {
    list.push_back({{"node", spent.node},
                    {"seconds", spent.seconds},
                    {"compute", spent.compute()},
                    {"exposed_communication", spent.exposed_communication},
                    {"exposed_by_cause", causes_of(spent)},
                    {"data", spent.data},
                    {"evaluation", spent.evaluation},
                    {"checkpoint", spent.checkpoint},
                    {"hidden_communication", spent.hidden_communication}});
  }
  return list;
}

ordered_json late_of(const std::vector<RankLateness>& ranks) {
  ordered_json list = ordered_json::array();
  for (const RankLateness& one : ranks) {
    list.push_back({{"rank", one.rank},
                    {"node", one.node},
                    {"times", one.lateness.times},
                    {"seconds", one.lateness.seconds}});
  }
  return list;
}

ordered_json views_of(const std::vector<ViewRecord>& views) {
  ordered_json list = ordered_json::array();
  for (const ViewRecord& view : views) {
    ordered_json& one = list.emplace_back();
    one = {{"view", view.number},   {"nodes", view.nodes}, {"lost", view.lost}, {"left", view.left},
           {"joined", view.joined}, {"epoch", view.epoch}, {"step", view.step}};
    if (view.stall) one["stall"] = *view.stall;
  }
  return list;
}

}  // namespace

std::string text_of(const Summary& s) {
  ordered_json report = {{"strategy", s.strategy},
                         {"nodes", s.nodes},
                         {"ranks", s.ranks},
                         {"epochs", s.epochs},
                         {"steps", s.steps},
                         {"seconds", s.seconds},
                         {"samples_per_second", s.samples_per_second},
                         {"wait_seconds", s.wait_seconds},
                         {"exchanges", s.exchanges},
                         {"staleness_mean", s.staleness_mean},
                         {"bytes_between_nodes", s.bytes_between_nodes},
                         {"skipped_steps", s.skipped_steps},
                         {"train_loss", s.train_loss},
                         {"test_loss", s.test_loss},
                         {"test_accuracy", s.test_accuracy},
                         {"time_budget", budget_of(s.time_budget)},
                         {"late", late_of(s.late)},
                         {"finished", s.finished},
                         {"exit", s.exit},
                         {"out", s.out}};
  if (s.epochs == 0 && !s.evaluated) report.erase("train_loss");
  if (!s.evaluated) {
    for (const char* name : {"test_loss", "test_accuracy"}) report.erase(name);
  }
  if (std::isnan(s.test_loss)) report.erase("test_loss");
  if (std::isnan(s.test_accuracy)) report.erase("test_accuracy");
  if (s.evaluated && s.top5) report["top5"] = *s.top5;
  if (s.evaluated && s.perplexity) report["perplexity"] = *s.perplexity;
  if (s.bad_images) report["bad_images"] = *s.bad_images;
  if (!s.views.empty()) report["views"] = views_of(s.views);
  if (s.unseen_examples) report["unseen_examples"] = *s.unseen_examples;
  return report.dump(2) + "\n";
}

}  // namespace daso
