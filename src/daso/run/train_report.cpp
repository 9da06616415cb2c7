// SPDX-License-Identifier: Apache-2.0
#include "daso/run/train_report.h"

#include <algorithm>
#include <cmath>

#include "daso/base/standard_streams.h"
#include "daso/launch/output.h"
#include "daso/record/report_text.h"

namespace daso {
namespace {

constexpr Seconds kBetweenBars{0.2};
constexpr int kScreen = 100;  // columns that a line may have, terminal or not
// All below the cursor, not the line alone: in a window that has become narrower the bar before is
// wrapped, and the cursor stands where it begins.
constexpr const char* kClear = "\033[J";

// "cycling 8/1"; nothing of a strategy that has no phases.
std::string cadence_in(const StrategyStatus& now) {
  if (!now.phase) return "";
  std::string text = name_of(*now.phase);
  if (now.skip > 0) text += fmt::format(" {}", now.skip);
  if (now.skip > 0 && now.wait > 0) text += fmt::format("/{}", now.wait);
  return text;
}

std::string late_in(const Progress& now) {
  if (!now.late || !is_late(now.late->seconds)) return "";
  return fmt::format("rank {} late by {:.0f} ms", now.late->rank, 1e3 * now.late->seconds);
}

std::string test_loss_in(const Progress& now) {
  const bool known = now.test && !std::isnan(now.test->loss);
  return known ? fmt::format("test loss {:.4f}", now.test->loss) : "";
}

std::string accuracy_in(const Progress& now) {
  const bool known = now.test && has_accuracy(*now.test);
  return known ? fmt::format("accuracy {:.4f}", now.test->accuracy) : "";
}

// The views that are to be written down, this one last; none: a world for good.
std::vector<ViewRecord> views_of(const World& world, const Course& course) {
  if (!world.view()) return {};
  std::vector<ViewRecord> views = course.takeover().views;
  views.push_back(course.run().views().back());
  return views;
}

RunFacts facts_of(const World& world, const Course& course) {
  const Settings& settings = course.run().settings();
  const RunPlace place = course.resumed().value_or(RunPlace{});
  return {.folder = settings.out,
          .strategy = settings.strategy,
          .model = settings.model,
          .data = settings.data,
          .epochs = settings.epochs,
          .first_epoch = place.epoch,
          .first_step = place.step,
          .views = views_of(world, course),
          .decided = course.takeover().decided,
          .job = course.takeover().any ? Membership::Job::kGoesOn : Membership::Job::kBegins};
}

}  // namespace

TrainReport::TrainReport(const World& world, const Course& course, bool quiet)
    : model_(course.run().model()),
      files_(world, facts_of(world, course)),
      histograms_(course.run().settings().histograms),
      quiet_(quiet),
      on_terminal_(terminal_columns().has_value()) {}

void TrainReport::operator()(const Progress& now) {
  files_.add(now);
  const bool epoch_is_over = now.info.batch == now.info.last;
  if (epoch_is_over && histograms_) files_.add_histograms(model_, now.info.step);
  if (quiet_) return;
  if (epoch_is_over) {
    show_epoch(now);
  } else if (on_terminal_ && since(last_) > kBetweenBars) {
    last_ = Clock::now();
    // Asked for anew: somebody may have made the window narrower.
    if (const auto columns = terminal_columns()) show_bar(now, *columns);
  }
}

void TrainReport::show_view(const RunPlace& place) const {
  const std::optional<Membership>& members = files_.membership();
  if (quiet_ || !members || !members->entered()) return;
  fmt::print("{}{}; going on with step {}, epoch {}\n", on_terminal_ ? kClear : "",
             text_of(members->views().back(), nodes_in(members->views())), place.step,
             place.epoch + 1);
  flush_output();
}

// A line that stays, so it also has to fit where a log is read later.
void TrainReport::show_epoch(const Progress& now) const {
  const int columns = std::min(terminal_columns().value_or(kScreen), kScreen);
  const std::string cadence = cadence_in(now.strategy);
  fmt::print(
      "{}{}\n", on_terminal_ ? kClear : "",
      fitted(
          {{fmt::format("epoch {:3} of {}", now.info.epoch + 1, now.epochs), 9},
           {cadence.empty() ? "" : fmt::format("{:12}", cadence), 4},
           {fmt::format("loss {:.4f}", now.loss), 8},
           {test_loss_in(now), 6},
           {accuracy_in(now), 7},
           {fmt::format("{:.0f}/s", now.samples_per_second), 3},
           {fmt::format("waiting {:.0f} %", 100 * now.wait_share), 2},
           {late_in(now), 1}},
          static_cast<std::size_t>(columns)));
  flush_output();
}

void TrainReport::show_bar(const Progress& now, int columns) {
  constexpr int kWidth = 16;
  const double done =
      static_cast<double>(now.info.batch + 1) / static_cast<double>(now.info.last + 1);
  const int filled = static_cast<int>(done * kWidth);
  const std::int64_t in_flight = now.strategy.in_flight_for;
  const std::string bar =
      fitted({{fmt::format("epoch {} of {} [{:#>{}}{:.>{}}]", now.info.epoch + 1, now.epochs, "",
                           filled, "", kWidth - filled),
               9},
              {short_duration(files_.seconds_left(now)) + " left", 7},
              {cadence_in(now.strategy), 5},
              {in_flight > 0 ? fmt::format("in flight for {}", in_flight) : "", 1},
              {fmt::format("loss {:.4f}", now.loss), 8},
              {fmt::format("{:.0f} samples/s", now.samples_per_second), 4},
              {fmt::format("waiting {:.0f} %", 100 * now.wait_share), 3},
              {late_in(now), 2}},
             // One less: in its last column some terminals wrap already.
             static_cast<std::size_t>(columns - 1));
  // The carriage return at the end: what comes next is written over it.
  fmt::print("{}{}\r", kClear, bar);
  flush_output();
}

}  // namespace daso
