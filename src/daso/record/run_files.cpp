// SPDX-License-Identifier: Apache-2.0
#include "daso/record/run_files.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>
#include <utility>

#include "daso/base/checked_json.h"
#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/paths.h"
#include "daso/record/metrics.h"
#include "daso/record/report.h"
#include "daso/record/report_data.h"
#include "daso/tensor/large_tensor.h"

namespace daso {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::int64_t kRecordEvery = 10;  // steps
constexpr Seconds kBetweenStatus{1};

bool is_recorded(const StepInfo& info) {
  return info.step % kRecordEvery == 0 || info.batch == info.last;
}

// The lines that are of steps before this one, which are counted anew where an epoch has other
// steps than the one before. A kill may have cut the last.
std::string records_before(const std::string& content, int epoch, std::int64_t step) {
  std::istringstream stream(content);
  std::string kept;
  for (std::string line; std::getline(stream, line);) {
    const auto record = json_in(line);
    if (!record) continue;
    const auto its_step = number_in(*record, metric("step"));
    if (!its_step) continue;
    const auto its_epoch = number_in(*record, metric("epoch")).value_or(epoch);
    if (std::tuple(its_epoch, *its_step) < std::tuple(epoch, step)) kept += line + "\n";
  }
  return kept;
}

// The end of a file can be cut off where the disk is full, too.
void shorten(const fs::path& file, const std::string& content, const std::string& kept) {
  if (kept == content) return;
  std::error_code error;
  if (content.starts_with(kept)) fs::resize_file(file, kept.size(), error);
  if (error || !content.starts_with(kept)) write_file_unsynced(file, kept);
}

// Whole for every reader. Not synced: a crash may lose it.
bool replace(const fs::path& file, const std::string& content) {
  try {
    write_file_unsynced(file, content);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// A metric as status.json has it: null where it is not there.
ordered_json value_of(const Metric& metric, const Progress& now) {
  const Taken value = metric.take(now);
  return value ? json_of(*value) : ordered_json();
}

ordered_json late_of(const std::optional<Late>& late) {
  if (!late) return nullptr;
  return {
      {"rank", late->rank}, {"node", late->node}, {"step", late->step}, {"seconds", late->seconds}};
}

ordered_json ranks_of(const World& world, const std::vector<double>& worked) {
  ordered_json list = ordered_json::array();
  for (int rank = 0; rank < world.size(); ++rank) {
    ordered_json one = {{"rank", rank_id(world, rank)},
                        {"node", node_id(world, rank)},
                        {"host", world.host_of(rank)},
                        {"worked_seconds", nullptr}};
    if (!worked.empty()) one["worked_seconds"] = worked[static_cast<std::size_t>(rank)];
    list.push_back(std::move(one));
  }
  return list;
}

ordered_json view_of(const std::vector<ViewRecord>& views) {
  return {{"number", views.back().number},
          {"nodes", views.back().nodes},
          {"of", nodes_in(views)},
          {"changes", views.size() - 1}};
}

}  // namespace

RunFiles::RunFiles(const World& world, RunFacts facts) : world_(world), facts_(std::move(facts)) {
  open_metrics();
  if (!facts_.views.empty()) {
    membership_.emplace(facts_.folder, facts_.job, facts_.views, facts_.decided);
  }
  try {
    board_.emplace(facts_.folder, facts_.first_step);
  } catch (const Error& error) {
    warn(error.what());
  }
}

// Records of steps that are still to be done are of a run that was stopped later than its
// checkpoint; they are dropped.
void RunFiles::open_metrics() {
  const fs::path file = facts_.folder / "metrics.jsonl";
  const std::string content = is_there(file) ? read_file(file) : "";
  const std::string kept = records_before(content, facts_.first_epoch, facts_.first_step);
  try {
    shorten(file, content, kept);
  } catch (const Error& error) {
    if (facts_.job == Membership::Job::kBegins) throw;
    warn(error.what());  // in a later view the run has begun
  }
  metrics_.emplace(file);
}

bool RunFiles::due(const StepInfo& info) const {
  return is_recorded(info) || !status_written_ || since(*status_written_) >= kBetweenStatus;
}

void RunFiles::add(const Progress& now) {
  now_ = now;
  seconds_left_ = seconds_left(now);
  if (now.test && has_accuracy(*now.test)) accuracy_ = now.test->accuracy;
  add_outcomes(now.events);
  if (is_recorded(now.info)) put_record(now);
  if (status_written_ && since(*status_written_) < kBetweenStatus) return;
  status_written_ = Clock::now();
  put_status("running");
}

// What the epoch's mean has taken in since the record before.
double RunFiles::recent_loss(const Progress& now) {
  if (now.info.epoch != std::exchange(recorded_epoch_, now.info.epoch)) recorded_ = {};
  const RunningMean before = std::exchange(recorded_, now.own_loss);
  const RunningMean since_then{.sum = now.own_loss.sum - before.sum,
                               .number = now.own_loss.number - before.number};
  return since_then.number > 0 ? since_then.value() : now.own_loss.value();
}

void RunFiles::put_record(Progress now) {
  now.recent_loss = recent_loss(now);
  if (!metrics_->add(record_of(now).dump())) {
    warn((facts_.folder / "metrics.jsonl").string() + ": cannot be written");
  }
  if (!board_) return;
  try {
    for (const Metric& metric : kMetrics) {
      const Taken value = metric.take(now);
      if (value && !metric.tag.empty()) {
        board_->scalar(std::string(metric.tag), now.info.step, number_of(*value));
      }
    }
    board_->flush();
  } catch (const Error& error) {
    warn(error.what());
  }
}

void RunFiles::add_histograms(const FlatModel& model, std::int64_t step) {
  if (!board_) return;
  const at::Tensor here = model.parameters().cpu();
  const std::span<const float> all = host_floats(here);
  try {
    for (const FlatSpan& span : model.parameter_spans()) {
      board_->histogram("parameters/" + span.name, step,
                        all.subspan(static_cast<std::size_t>(span.offset),
                                    static_cast<std::size_t>(span.elements)));
    }
    board_->flush();
  } catch (const Error& error) {
    warn(error.what());
  }
}

void RunFiles::add_outcomes(const StrategyEvents& events) {
  if (membership_ && !membership_->add(events)) {
    warn((facts_.folder / "membership.jsonl").string() + ": cannot be written");
  }
}

void RunFiles::add_stop(int epoch, std::int64_t batch) {
  if (membership_ && !membership_->stopped(epoch, batch)) {
    warn((facts_.folder / "membership.jsonl").string() + ": cannot be written");
  }
}

void RunFiles::end(Summary& summary) {
  if (membership_) summary.views = membership_->views();
  if (!replace(facts_.folder / "summary.json", text_of(summary))) {
    warn((facts_.folder / "summary.json").string() + ": cannot be written");
  }
  seconds_left_ = 0;
  put_status(summary.finished ? "finished" : "stopped");
  try {
    write_report({facts_.folder}, facts_.folder / "report.html");
  } catch (const std::exception& error) {
    warn(fmt::format("no report: {}", error.what()));
  }
}

double RunFiles::seconds_left(const Progress& now) const {
  const std::int64_t done = now.info.step + 1;
  const double per_step = since(begin_).count() / static_cast<double>(done - facts_.first_step);
  return per_step * static_cast<double>(now.steps - done);
}

// Where a run is. A failure is not worth a word: it is written again in a second.
void RunFiles::put_status(const char* state) const {
  const auto unix_time = std::chrono::system_clock::now().time_since_epoch();
  ordered_json status = {{"state", state},
                         {"updated", Seconds(unix_time).count()},
                         {"strategy", facts_.strategy},
                         {"model", facts_.model},
                         {"data", facts_.data},
                         {metric("epoch"), value_of(metric_row("epoch"), now_)},
                         {"epochs", now_.epochs},
                         {"step", now_.info.step + 1},
                         {"steps", now_.steps}};
  const auto put = [&](const Metric& metric) {
    status[std::string(metric.name)] = value_of(metric, now_);
  };
  if (now_.strategy.phase) put(metric_row("phase"));
  put(metric_row("skip"));
  put(metric_row("wait"));
  status["in_flight_for"] = now_.strategy.in_flight_for;
  put(metric_row("train_loss"));
  status[metric("test_accuracy")] = accuracy_ ? ordered_json(*accuracy_) : ordered_json();
  put(metric_row("samples_per_second"));
  put(metric_row("wait_share"));
  put(metric_row("seconds"));
  if (now_.device_bytes) put(metric_row("device_memory"));
  if (now_.device_share) put(metric_row("device_share"));
  status["seconds_left"] = seconds_left_;
  status["late"] = late_of(now_.late);
  status["ranks"] = ranks_of(world_, now_.worked);
  if (membership_) status["view"] = view_of(membership_->views());
  replace(facts_.folder / "status.json",
          status.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

void RunFiles::warn(const std::string& what) {
  // Not by fmt, which throws: standard error may lead to a file on the same full disk.
  if (!std::exchange(warned_, true)) std::fprintf(stderr, "daso: warning: %s\n", what.c_str());
}

}  // namespace daso
