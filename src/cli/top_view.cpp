// SPDX-License-Identifier: Apache-2.0
#include "cli/top_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>
#include <vector>

#include "bench/statistics.h"
#include "cli/table.h"
#include "daso/record/metrics.h"
#include "daso/record/report_data.h"
#include "daso/record/report_text.h"

namespace daso::cli {
namespace {

using namespace bench;

using nlohmann::json;

constexpr double kSilenceSeconds = 10;  // a run writes about once a second
constexpr double kSlow = 1.2;           // times the median: a rank that is pointed at

// Within what every conversion below can hold.
std::int64_t count_in(const json& object, const char* field) {
  return static_cast<std::int64_t>(std::clamp(number_in(object, field).value_or(0), 0.0, 1e15));
}

std::string text_in(const json& object, const char* field) {
  const auto found = object.find(field);
  const bool there = found != object.end() && found->is_string();
  return there ? found->get<std::string>() : "-";
}

std::string text_of(std::optional<double> number, int digits) {
  return number ? fmt::format("{:.{}f}", *number, digits) : "-";
}

bool begins_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }

// Cut to the width, in letters of UTF-8. What a terminal could take for a command is replaced.
std::string fit(const std::string& line, std::size_t width) {
  std::string text;
  std::size_t letters = 0;
  for (const char byte : line) {
    if (begins_letter(byte) && ++letters > width) break;
    const bool control = static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F;
    text += control ? '?' : byte;
  }
  return text;
}

std::string bar(double share, int width) {
  const int filled = static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * width));
  return fmt::format("{:#>{}}{:.>{}}", "", filled, "", width - filled);
}

std::string state_line(const json& status, double now) {
  const std::string state = text_in(status, "state");
  const double silence = now - number_in(status, "updated").value_or(now);
  const std::string for_long = short_duration(number_in(status, metric("seconds")).value_or(0));
  std::string text = fmt::format("{} {} {}", state, is_over(status) ? "after" : "for", for_long);
  if (!is_over(status) && silence > kSilenceSeconds) {
    text = fmt::format("no news for {}: the run may have been killed", short_duration(silence));
  }
  // The data stand last as their name may be long, and what is too long is cut.
  return fmt::format("{} | strategy {}, {} on {}", text, text_in(status, "strategy"),
                     text_in(status, "model"), text_in(status, "data"));
}

std::string progress_line(const json& status, int width) {
  constexpr int kShortest = 10;
  const std::int64_t epochs = count_in(status, "epochs");
  const std::int64_t steps = count_in(status, "steps");
  const std::int64_t step = count_in(status, "step");
  const double share = steps > 0 ? static_cast<double>(step) / static_cast<double>(steps) : 0;
  const std::string before = fmt::format(
      "epoch {} of {} [", std::min(count_in(status, metric("epoch")) + 1, epochs), epochs);
  std::string after =
      fmt::format("] {:3.0f} %  step {} of {}", 100 * std::min(share, 1.0), step, steps);
  const std::optional<double> left = number_in(status, "seconds_left");
  if (left && !is_over(status)) after += fmt::format("  {} left", short_duration(*left));
  const int room = width - static_cast<int>(before.size() + after.size());
  return before + bar(share, std::max(kShortest, room)) + after;
}

std::string phase_line(const json& status) {
  const std::int64_t skip = count_in(status, metric("skip"));
  const std::int64_t wait = count_in(status, metric("wait"));
  const std::int64_t in_flight_for = count_in(status, "in_flight_for");
  if (!status.contains(metric("phase")))
    return "phase     none: the strategy is the same in every step";
  std::string text = "phase     " + text_in(status, metric("phase"));
  if (skip == 0) return text + ", no exchange in the background";
  text += skip == 1 ? ", exchange every step" : fmt::format(", exchange every {} steps", skip);
  text += wait == 0 ? ", blocking" : fmt::format(", merged after {}", wait);
  return text + (in_flight_for == 0 ? "; none in flight"
                                    : fmt::format("; in flight for {}", in_flight_for));
}

std::string training_line(const json& status) {
  std::optional<double> percent = number_in(status, metric("wait_share"));
  if (percent) *percent *= 100;
  const std::optional<double> load = number_in(status, metric("device_share"));
  return fmt::format("training  loss {}   accuracy {}   {} samples/s   waiting {} %{}",
                     text_of(number_in(status, metric("train_loss")), 4),
                     text_of(number_in(status, metric("test_accuracy")), 4),
                     text_of(number_in(status, metric("samples_per_second")), 0),
                     text_of(percent, 1), load ? fmt::format("   GPU {:.0f} %", 100 * *load) : "");
}

std::string late_line(const json& status) {
  const json late = status.value("late", json());
  const double seconds = number_in(late, "seconds").value_or(0);
  if (!is_late(seconds)) return "late      nobody";
  return fmt::format("late      rank {} on node {} by {:.0f} ms at step {}", count_in(late, "rank"),
                     count_in(late, "node"), 1e3 * seconds, count_in(late, "step"));
}

// Who belongs to a run whose nodes come and go.
std::string members_line(const json& status) {
  const json view = status.value("view", json());
  const json nodes = view.is_object() ? view.value("nodes", json()) : json();
  if (!nodes.is_array()) return "";
  std::string ids;
  for (const json& id : nodes) {
    if (id.is_number_integer()) ids += fmt::format("{}{}", ids.empty() ? "" : ", ", id.dump());
  }
  return fmt::format("members   view {}: {} of {} nodes: {}", count_in(view, "number"),
                     nodes.size(), count_in(view, "of"), ids);
}

struct LineOfRank {
  std::int64_t node = 0;
  std::int64_t rank = 0;
  std::string host;
  std::optional<double> worked;  // seconds a step
};

std::vector<LineOfRank> ranks_in(const json& status) {
  std::vector<LineOfRank> ranks;
  for (const json& one : status.value("ranks", json::array())) {
    if (!one.is_object()) continue;
    ranks.push_back({.node = count_in(one, "node"),
                     .rank = count_in(one, "rank"),
                     .host = text_in(one, "host"),
                     .worked = number_in(one, "worked_seconds")});
  }
  return ranks;
}

// The slowest ones, by node.
std::vector<LineOfRank> slowest(std::vector<LineOfRank> ranks, std::size_t most) {
  std::stable_sort(ranks.begin(), ranks.end(), [](const LineOfRank& a, const LineOfRank& b) {
    return a.worked.value_or(0) > b.worked.value_or(0);
  });
  ranks.resize(std::min(ranks.size(), most));
  std::sort(ranks.begin(), ranks.end(), [](const LineOfRank& a, const LineOfRank& b) {
    return std::tie(a.node, a.rank) < std::tie(b.node, b.rank);
  });
  return ranks;
}

// What the ranks are measured by.
struct Scale {
  double slowest = 0;
  double median = 0;
};

Scale scale_of(const std::vector<LineOfRank>& ranks) {
  std::vector<double> worked;
  for (const LineOfRank& one : ranks) {
    if (one.worked) worked.push_back(*one.worked);
  }
  if (worked.empty()) return {};
  return {.slowest = *std::max_element(worked.begin(), worked.end()), .median = median(worked)};
}

std::string bar_of(double worked, const Scale& scale, int width) {
  std::string text = bar(scale.slowest > 0 ? worked / scale.slowest : 0, width);
  if (scale.median > 0 && worked > kSlow * scale.median) {
    text += fmt::format(" {:.1f} x median", worked / scale.median);
  }
  return text;
}

// A title and a line for each of at most `height - 1` ranks; the last line tells of the rest.
std::vector<std::string> rank_lines(const json& status, int width, std::size_t height) {
  constexpr std::size_t kLongestHost = 20;
  constexpr int kBesides = 4 + 4 + 9 + 4 * 2 + 15;  // columns, the room between, " 1.9 x median"
  const std::vector<LineOfRank> ranks = ranks_in(status);
  if (ranks.empty() || height < 2) return {};
  const bool all = ranks.size() <= height - 1;
  const std::vector<LineOfRank> shown = slowest(ranks, all ? ranks.size() : height - 2);

  std::size_t host = 4;
  for (const LineOfRank& one : shown) host = std::max(host, std::min(one.host.size(), kLongestHost));
  const int bar_width = std::clamp(width - kBesides - static_cast<int>(host), 5, 40);
  const Table table({{"node", 4},
                     {"rank", 4},
                     {"host", static_cast<int>(host), /*left=*/true},
                     {"worked", 9},
                     {"in each step, without waiting", bar_width, /*left=*/true}});
  const Scale scale = scale_of(ranks);
  std::vector<std::string> lines = {table.header()};
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const LineOfRank& one = shown[i];
    const bool first = i == 0 || shown[i - 1].node != one.node;
    lines.push_back(table.row({first ? std::to_string(one.node) : "", std::to_string(one.rank),
                               fit(one.host, host), one.worked ? format_seconds(*one.worked) : "-",
                               one.worked ? bar_of(*one.worked, scale, bar_width) : ""}));
  }
  if (!all) {
    lines.push_back(fmt::format("{} of {} ranks are not shown; none is slower",
                                ranks.size() - shown.size(), ranks.size()));
  }
  return lines;
}

}  // namespace

bool is_over(const json& status) {
  const std::string state = text_in(status, "state");
  return state == "finished" || state == "stopped";
}

std::string top_view(const json& status, double now, ViewSize size) {
  const auto height = static_cast<std::size_t>(std::max(size.height, 1));
  const int width = std::max(size.width, 1);
  std::vector<std::string> lines = {state_line(status, now), progress_line(status, width),
                                    phase_line(status),      training_line(status),
                                    late_line(status)};
  if (const std::string members = members_line(status); !members.empty()) lines.push_back(members);
  lines.emplace_back();
  const std::size_t left = height > lines.size() ? height - lines.size() : 0;
  const std::vector<std::string> ranks = rank_lines(status, width, left);
  lines.insert(lines.end(), ranks.begin(), ranks.end());
  lines.resize(std::min(lines.size(), height));
  std::string text;
  for (const std::string& line : lines) text += fit(line, static_cast<std::size_t>(width)) + "\n";
  return text;
}

}  // namespace daso::cli
