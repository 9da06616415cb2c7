// SPDX-License-Identifier: Apache-2.0
#include "daso/record/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace daso {
namespace {

using nlohmann::ordered_json;

}  // namespace

ordered_json json_of(const MetricValue& value) {
  if (const auto* phase = std::get_if<Phase>(&value)) return name_of(*phase);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::get<std::int64_t>(value);
}

double number_of(const MetricValue& value) {
  return std::visit([](auto number) { return static_cast<double>(number); }, value);
}

ordered_json record_of(const Progress& now) {
  ordered_json record = ordered_json::object();
  for (const Metric& metric : kMetrics) {
    if (const auto value = metric.take(now)) record[std::string(metric.name)] = json_of(*value);
  }
  return record;
}

std::string metrics_table() {
  const auto code = [](std::string_view text) {
    return text.empty() ? "" : fmt::format("`{}`", text);
  };
  std::string table = "| JSON | TensorBoard | unit | there | meaning |\n|---|---|---|---|---|\n";
  for (const Metric& metric : kMetrics) {
    table +=
        fmt::format("| {} | {} | {} | {} | {} |\n", code(metric.name), code(metric.tag),
                    metric.unit, metric.there.empty() ? "always" : metric.there, metric.meaning);
  }
  return table;
}

}  // namespace daso
