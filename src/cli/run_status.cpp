// SPDX-License-Identifier: Apache-2.0
#include "cli/run_status.h"

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daso/base/error.h"
#include "daso/base/output_file.h"

namespace daso::cli {
namespace {

using json = nlohmann::ordered_json;

constexpr Seconds kBetween{1};

double unix_seconds() {
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

json late_of(const std::optional<Late>& late, const Topology& topology) {
  if (!late) return nullptr;
  return {{"rank", late->rank},
          {"node", topology.node_of(late->rank)},
          {"step", late->step},
          {"seconds", late->seconds}};
}

json ranks_of(const World& world, const std::vector<double>& worked) {
  json list = json::array();
  for (int rank = 0; rank < world.size(); ++rank) {
    json one = {{"rank", rank},
                {"node", world.topology().node_of(rank)},
                {"host", world.host_of(rank)},
                {"worked_seconds", nullptr}};
    if (!worked.empty()) one["worked_seconds"] = worked[static_cast<std::size_t>(rank)];
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

RunStatus::RunStatus(const World& world, const Settings& options)
    : world_(world), options_(options) {}

void RunStatus::update(const Progress& now, double seconds_left) {
  now_ = now;
  seconds_left_ = seconds_left;
  if (now.test) accuracy_ = now.test->accuracy;
  if (written_ && since(*written_) < kBetween) return;
  written_ = Clock::now();
  write("running");
}

void RunStatus::end(const Summary& summary) {
  seconds_left_ = 0;
  write(summary.epochs >= options_.epochs ? "finished" : "stopped");
}

void RunStatus::write(const char* state) {
  json status = {{"state", state},
                 {"updated", unix_seconds()},
                 {"strategy", options_.strategy},
                 {"model", options_.model},
                 {"data", options_.data},
                 {"epoch", now_.info.epoch},
                 {"epochs", now_.epochs},
                 {"step", now_.info.step + 1},
                 {"steps", now_.epochs * (now_.info.last + 1)},
                 {"skip", now_.strategy.skip},
                 {"wait", now_.strategy.wait},
                 {"in_flight_for", now_.strategy.in_flight_for},
                 {"train_loss", now_.loss},
                 {"test_accuracy", nullptr},
                 {"samples_per_second", now_.samples_per_second},
                 {"wait_share", now_.wait_share},
                 {"seconds", now_.seconds},
                 {"seconds_left", seconds_left_},
                 {"late", late_of(now_.late, world_.topology())},
                 {"ranks", ranks_of(world_, now_.worked)}};
  if (now_.strategy.phase) status["phase"] = name_of(*now_.strategy.phase);
  if (accuracy_) status["test_accuracy"] = *accuracy_;
  const std::string text = status.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
  try {
    write_file_unsynced(options_.out / "status.json", text);
  } catch (const Error&) {
    // A full disk must not end a run for its sake.
  }
}

}  // namespace daso::cli
