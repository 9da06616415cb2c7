// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "daso/base/text.h"
#include "daso/record/metrics.h"
#include "daso/record/report_sections.h"
#include "daso/record/report_seeds.h"

// The block of JSON that the page's script draws from.
namespace daso {
namespace {

using nlohmann::json;

// A curve of more points cannot be told from one of these on a screen, but would make the page
// heavy: a long run has a hundred thousand records.
constexpr std::size_t kMostRecords = 1500;
constexpr std::size_t kMostLate = 1000;

constexpr std::array kColumns{metric("step"),       metric("epoch"),     metric("skip"),
                              metric("wait"),       metric("seconds"),   metric("learning_rate"),
                              metric("train_loss"), metric("test_loss"), metric("test_accuracy"),
                              metric("distance")};
// Those whose curve has a band where a run stands for several seeds.
constexpr std::array kBands{metric("train_loss"), metric("test_loss"), metric("test_accuracy"),
                            metric("distance")};

// As precise as a drawing needs. null is a gap in a curve; the JSON writer makes it of a number
// that is not finite, too.
json rounded(std::optional<double> number) {
  if (!number) return nullptr;
  return std::strtod(fmt::format("{:.6g}", *number).c_str(), nullptr);
}

std::string phase_of(const json& record) {
  const auto found = record.find(metric("phase"));
  return found != record.end() && found->is_string() ? found->get<std::string>() : "";
}

// The records to draw: one in `stride`, the last, those with a test, and those around the change of
// a phase.
std::vector<std::size_t> chosen(const std::vector<json>& records) {
  const std::size_t stride = 1 + records.size() / (kMostRecords + 1);
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const bool border = i + 1 == records.size() ||
                        phase_of(records[i]) != phase_of(records[i + 1]) ||
                        (i > 0 && phase_of(records[i]) != phase_of(records[i - 1]));
    const bool tested =
        records[i].contains(metric("test_loss")) || records[i].contains(metric("test_accuracy"));
    if (border || i % stride == 0 || tested) indices.push_back(i);
  }
  return indices;
}

// [step, rank, seconds] of each time a rank was late. A record repeats the last one until there is
// another.
json late_of(const std::vector<json>& records) {
  std::vector<json> late;
  json last;
  for (const json& record : records) {
    if (!was_late(record)) continue;
    const json place = {
        number_in(record, metric("late_step")).value_or(*number_in(record, metric("step"))),
        *number_in(record, metric("late_rank"))};
    if (place == last) continue;
    last = place;
    late.push_back({place[0], place[1], rounded(number_in(record, metric("late_seconds")))});
  }
  if (late.size() > kMostLate) {  // the worst are what one looks for
    std::nth_element(late.begin(), late.begin() + kMostLate, late.end(),
                     [](const json& a, const json& b) { return a[2] > b[2]; });
    late.resize(kMostLate);
  }
  return late;
}

// In phases that average gradients over all ranks replicas are equal: what an older version has
// recorded there is the distance of the last merge before.
bool is_apart(const json& record) {
  const std::string phase = phase_of(record);
  return phase != "warmup" && phase != "cooldown";
}

bool has_device(const ReportedRun& run) {
  return run.figures.is_object() && run.figures.contains(metric("device_share"));
}

json drawn(const ReportedRun& run, bool with_device) {
  const std::vector<std::size_t> indices = chosen(run.records);
  json result = {{"label", run.label},
                 {"seeds", run.folders.size()},
                 {"late", late_of(run.records)},
                 {metric("phase"), json::array()}};
  std::vector<std::string> columns(kColumns.begin(), kColumns.end());
  if (with_device) columns.emplace_back(metric("device_share"));
  for (const char* band : kBands) {
    if (run.folders.size() == 1) break;
    columns.insert(columns.end(), {std::string(band) + kLow, std::string(band) + kHigh});
  }
  for (const std::string& column : columns) result[column] = json::array();
  for (const std::size_t i : indices) {
    const json& record = run.records[i];
    for (const std::string& column : columns) {
      const bool shown = !column.starts_with(metric("distance")) || is_apart(record);
      result[column].push_back(rounded(shown ? number_in(record, column.c_str()) : std::nullopt));
    }
    // A step has more digits than a curve needs, and is exact.
    result[metric("step")].back() = record[metric("step")];
    result[metric("phase")].push_back(phase_of(record));
  }
  return result;
}

}  // namespace

std::string curve_data(const ReportedRuns& runs) {
  json all = json::array();
  const bool with_device = std::any_of(runs.begin(), runs.end(), has_device);
  for (const ReportedRun& run : runs) all.push_back(drawn(run, with_device));
  const std::string text =
      all.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  return join(split(text, '<'), "\\u003c");  // else a text of a run could end the element
}

}  // namespace daso
