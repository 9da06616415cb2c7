// SPDX-License-Identifier: Apache-2.0
#include "cli/train_report.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/launch/terminal.h"
#include "daso/record/duration.h"
#include "daso/record/report.h"
#include "daso/tensor/large_tensor.h"

namespace daso::cli {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr Seconds kBetweenBars{0.2};
constexpr std::int64_t kRecordEvery = 10;  // steps, in metrics.jsonl

json record_of(const Progress& now) {
  json record = {{"step", now.info.step},
                 {"epoch", now.info.epoch},
                 {"seconds", now.seconds},
                 {"skip", now.strategy.skip},
                 {"wait", now.strategy.wait},
                 {"learning_rate", now.info.rate},
                 {"train_loss", now.loss},
                 {"samples_per_second", now.samples_per_second},
                 {"wait_share", now.wait_share},
                 {"wait_seconds", now.wait_seconds},
                 {"bytes_between_nodes", now.bytes_between_nodes}};
  if (now.strategy.phase) record["phase"] = name_of(*now.strategy.phase);
  if (now.strategy.staleness) record["staleness"] = *now.strategy.staleness;
  if (now.strategy.distance) record["distance"] = *now.strategy.distance;
  if (now.late) {
    record["late_rank"] = now.late->rank;
    record["late_step"] = now.late->step;
    record["late_seconds"] = now.late->seconds;
  }
  if (now.test) {
    record["test_loss"] = now.test->loss;
    record["test_accuracy"] = now.test->accuracy;
  }
  return record;
}

// The same for TensorBoard, whose tags are grouped by what stands before the slash.
void put_scalars(TensorBoardFile& board, const Progress& now) {
  const auto put = [&](const char* tag, double value) { board.scalar(tag, now.info.step, value); };
  put("train/loss", now.loss);
  put("train/learning_rate", now.info.rate);
  put("train/samples_per_second", now.samples_per_second);
  if (now.strategy.phase) put("schedule/phase", static_cast<double>(*now.strategy.phase));
  put("schedule/skip", static_cast<double>(now.strategy.skip));
  put("schedule/wait", now.strategy.wait);
  put("communication/wait_seconds", now.wait_seconds);
  put("communication/bytes_between_nodes", static_cast<double>(now.bytes_between_nodes));
  if (now.strategy.staleness)
    put("exchange/staleness", static_cast<double>(*now.strategy.staleness));
  if (now.strategy.distance) put("exchange/distance", *now.strategy.distance);
  if (now.late) put("late/seconds", now.late->seconds);
  if (now.test) {
    put("test/loss", now.test->loss);
    put("test/accuracy", now.test->accuracy);
  }
  board.flush();
}

// The lines of a file of records that are of steps before this one. A kill may have cut the last.
std::string records_before(const fs::path& file, std::int64_t step) {
  std::ifstream stream(file);
  std::string kept;
  for (std::string line; std::getline(stream, line);) {
    const json record = json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool whole = record.is_object() && record.contains("step");
    if (whole && record["step"] < step) kept += line + "\n";
  }
  return kept;
}

// "cycling 8/1"; nothing of a strategy that has no phases.
std::string cadence_in(const StrategyStatus& now) {
  if (!now.phase) return "";
  std::string text = name_of(*now.phase);
  if (now.skip > 0) text += fmt::format(" {}", now.skip);
  if (now.skip > 0 && now.wait > 0) text += fmt::format("/{}", now.wait);
  return text;
}

}  // namespace

TrainReport::TrainReport(const World& world, const Settings& options, const Trainer& trainer,
                         bool quiet)
    : world_(world),
      options_(options),
      trainer_(trainer),
      place_(trainer.resumed().value_or(RunPlace{})),
      board_(options.out, place_.step),
      status_(world, options),
      quiet_(quiet),
      columns_(terminal_columns()) {
  const fs::path file = options.out / "metrics.jsonl";
  const std::string kept = records_before(file, place_.step);
  metrics_.open(file);
  metrics_ << kept;
  require(metrics_.good(), "{} cannot be written", file.string());
}

void TrainReport::operator()(const Progress& now) {
  if (now.test || now.info.step % kRecordEvery == 0) record(now);
  status_.update(now, seconds_left(now));
  if (quiet_) return;
  if (now.test) {
    show_epoch(now);
  } else if (columns_ && since(last_) > kBetweenBars) {
    last_ = Clock::now();
    show_bar(now);
  }
}

void TrainReport::end(const Summary& summary) {
  write_file(options_.out / "summary.json", text_of(summary));
  status_.end(summary);
  try {
    write_report({options_.out}, options_.out / "report.html");
  } catch (const std::exception& error) {
    fmt::print(stderr, "daso: warning: no report: {}\n", error.what());
  }
}

void TrainReport::record(const Progress& now) {
  metrics_ << record_of(now).dump() << std::endl;
  // A full disk must not end a run for the sake of a picture.
  try {
    put_scalars(board_, now);
    if (now.test && options_.histograms) record_histograms(now.info.step);
  } catch (const Error& error) {
    if (!std::exchange(warned_, true)) fmt::print(stderr, "daso: warning: {}\n", error.what());
  }
}

void TrainReport::record_histograms(std::int64_t step) {
  const FlatModel& model = trainer_.model();
  const std::span<const float> all = floats(model.parameters());
  for (const FlatSpan& span : model.parameter_spans()) {
    board_.histogram("parameters/" + span.name, step,
                     all.subspan(static_cast<std::size_t>(span.offset),
                                 static_cast<std::size_t>(span.elements)));
  }
  board_.flush();
}

void TrainReport::show_epoch(const Progress& now) const {
  const std::string cadence = cadence_in(now.strategy);
  fmt::print(
      "{}epoch {:3} of {}  {}loss {:.4f}  test loss {:.4f}  accuracy {:.4f}  "
      "{:.0f} samples/s  waiting {:.1f} %{}\n",
      columns_ ? "\033[K" : "", now.info.epoch + 1, now.epochs,
      cadence.empty() ? "" : fmt::format("{:12}  ", cadence), now.loss, now.test->loss,
      now.test->accuracy, now.samples_per_second, 100 * now.wait_share, late_in(now));
  std::fflush(stdout);
}

void TrainReport::show_bar(const Progress& now) {
  constexpr int kWidth = 16;
  const double done =
      static_cast<double>(now.info.batch + 1) / static_cast<double>(now.info.last + 1);
  const int filled = static_cast<int>(done * kWidth);
  std::string bar = fmt::format(
      "epoch {} of {} [{:#>{}}{:.>{}}] {} left  {}{}  loss {:.4f}  {:.0f} samples/s  "
      "waiting {:.1f} %{}",
      now.info.epoch + 1, now.epochs, "", filled, "", kWidth - filled,
      short_duration(seconds_left(now)), cadence_in(now.strategy),
      now.strategy.in_flight_for > 0
          ? fmt::format(" exchange in flight for {}", now.strategy.in_flight_for)
          : "",
      now.loss, now.samples_per_second, 100 * now.wait_share, late_in(now));
  // A bar that wraps cannot be drawn over.
  bar.resize(std::min(bar.size(), static_cast<std::size_t>(*columns_ - 1)));
  // The carriage return at the end: what comes next is written over it.
  fmt::print("\033[K{}\r", bar);
  std::fflush(stdout);
}

double TrainReport::seconds_left(const Progress& now) const {
  const auto done = static_cast<double>(now.info.step + 1 - place_.step);
  const auto all = static_cast<double>(now.epochs) * static_cast<double>(now.info.last + 1);
  return since(begin_).count() / done * (all - static_cast<double>(now.info.step + 1));
}

std::string TrainReport::late_in(const Progress& now) const {
  if (!now.late || now.late->seconds < kLateSeconds) return "";
  return fmt::format("  late: node {} rank {} by {:.0f} ms",
                     world_.topology().node_of(now.late->rank), now.late->rank,
                     1e3 * now.late->seconds);
}

}  // namespace daso::cli
