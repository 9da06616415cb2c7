// SPDX-License-Identifier: Apache-2.0
#include "daso/run/train_report.h"

#include "daso/base/standard_streams.h"
#include "daso/launch/output.h"
#include "daso/record/report_text.h"

namespace daso {
namespace {

constexpr Seconds kBetweenBars{0.2};

// "cycling 8/1"; nothing of a strategy that has no phases.
std::string cadence_in(const StrategyStatus& now) {
  if (!now.phase) return "";
  std::string text = name_of(*now.phase);
  if (now.skip > 0) text += fmt::format(" {}", now.skip);
  if (now.skip > 0 && now.wait > 0) text += fmt::format("/{}", now.wait);
  return text;
}

}  // namespace

TrainReport::TrainReport(const World& world, const Settings& options, const Session& session,
                         bool quiet)
    : world_(world),
      session_(session),
      files_(world, {.folder = options.out,
                     .strategy = options.strategy,
                     .model = options.model,
                     .data = options.data,
                     .epochs = options.epochs,
                     .max_steps = options.max_steps.value_or(kEndless),
                     .first_step = session.resumed().value_or(RunPlace{}).step}),
      histograms_(options.histograms),
      quiet_(quiet),
      columns_(terminal_columns()) {}

void TrainReport::operator()(const Progress& now) {
  files_.add(now);
  if (now.test && histograms_) files_.add_histograms(session_.model(), now.info.step);
  if (quiet_) return;
  if (now.test) {
    show_epoch(now);
  } else if (columns_ && since(last_) > kBetweenBars) {
    last_ = Clock::now();
    show_bar(now);
  }
}

void TrainReport::show_epoch(const Progress& now) const {
  const std::string cadence = cadence_in(now.strategy);
  fmt::print(
      "{}epoch {:3} of {}  {}loss {:.4f}  test loss {:.4f}  {}"
      "{:.0f} samples/s  waiting {:.1f} %{}\n",
      columns_ ? "\033[K" : "", now.info.epoch + 1, now.epochs,
      cadence.empty() ? "" : fmt::format("{:12}  ", cadence), now.loss, now.test->loss,
      has_accuracy(*now.test) ? fmt::format("accuracy {:.4f}  ", now.test->accuracy) : "",
      now.samples_per_second, 100 * now.wait_share, late_in(now));
  flush_output();
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
      short_duration(files_.seconds_left(now)), cadence_in(now.strategy),
      now.strategy.in_flight_for > 0
          ? fmt::format(" exchange in flight for {}", now.strategy.in_flight_for)
          : "",
      now.loss, now.samples_per_second, 100 * now.wait_share, late_in(now));
  // A bar that wraps cannot be drawn over.
  bar.resize(std::min(bar.size(), static_cast<std::size_t>(*columns_ - 1)));
  // The carriage return at the end: what comes next is written over it.
  fmt::print("\033[K{}\r", bar);
  flush_output();
}

std::string TrainReport::late_in(const Progress& now) const {
  if (!now.late || !is_late(now.late->seconds)) return "";
  return fmt::format("  late: node {} rank {} by {:.0f} ms",
                     world_.topology().node_of(now.late->rank), now.late->rank,
                     1e3 * now.late->seconds);
}

}  // namespace daso
