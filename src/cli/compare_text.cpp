// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/compare_rows.h"
#include "cli/table.h"
#include "daso/base/error.h"
#include "daso/base/text.h"

// The rows of a comparison as people, programs and spreadsheets read them.
namespace daso::cli {
namespace {

using nlohmann::ordered_json;

std::string plus_minus(const Figure& figure, int digits, bool several) {
  return several ? fmt::format("{:.{}f} ± {:.{}f}", figure.mean, digits, figure.deviation, digits)
                 : fmt::format("{:.{}f}", figure.mean, digits);
}

std::string text_of(const Difference& difference) {
  return difference.margin ? fmt::format("{:+.4f} ± {:.4f}", difference.mean, *difference.margin)
                           : fmt::format("{:+.4f}", difference.mean);
}

ordered_json or_null(const std::optional<double>& number) {
  return number ? ordered_json(*number) : ordered_json();
}

void put(ordered_json& row, const std::string& name, const Figure& figure,
         const Difference& difference) {
  row[name] = figure.mean;
  row[name + "_deviation"] = figure.deviation;
  row[name + "_difference"] = difference.mean;
  row[name + "_difference_margin"] = or_null(difference.margin);
}

ordered_json json_of(const CompareRow& row) {
  ordered_json one = {{"strategy", row.label}};
  put(one, "seconds", row.seconds, row.seconds_difference);
  one["node_seconds"] = row.node_seconds;
  one["wait_seconds"] = row.wait_seconds;
  one["bytes_between_nodes"] = row.bytes_between_nodes;
  put(one, "train_loss", row.train_loss, row.train_loss_difference);
  put(one, "test_loss", row.test_loss, row.test_loss_difference);
  put(one, "test_accuracy", row.test_accuracy, row.test_accuracy_difference);
  one["seconds_to_target"] = or_null(row.seconds_to_target);
  one["seeds"] = row.runs.size();
  one["runs"] = ordered_json::array();
  for (const std::filesystem::path& run : row.runs) one["runs"].push_back(run.string());
  return one;
}

// As RFC 4180 has it. A number that is not finite is written as null, and has an empty cell as
// well.
std::string csv_cell(const ordered_json& value) {
  if (!value.is_string()) return value.dump() == "null" ? "" : value.dump();
  return "\"" + join(split(value.get<std::string>(), '"'), "\"\"") + "\"";
}

}  // namespace

std::string table_text(const std::vector<CompareRow>& rows, bool target) {
  const bool several = rows.front().runs.size() > 1;
  std::size_t widest = 12;
  for (const CompareRow& row : rows) widest = std::max(widest, row.label.size());
  std::vector<Column> columns = {{"strategy", static_cast<int>(widest), true},
                                 {"seconds", several ? 16 : 8},
                                 {"x node", 7},
                                 {"waiting s", 9},
                                 {"MB between nodes", 16},
                                 {"train loss", several ? 17 : 10},
                                 {"accuracy", several ? 17 : 8},
                                 {"difference", several ? 18 : 10}};
  if (target) columns.push_back({"s to target", 11});
  const Table table(columns);
  std::string text = table.header() + "\n";
  for (const CompareRow& row : rows) {
    std::vector<std::string> cells = {
        row.label,
        plus_minus(row.seconds, 2, several),
        fmt::format("{:.3f}", row.seconds.mean / row.node_seconds),
        fmt::format("{:.2f}", row.wait_seconds),
        fmt::format("{:.2f}", row.bytes_between_nodes / 1e6),
        plus_minus(row.train_loss, 4, several),
        plus_minus(row.test_accuracy, 4, several),
        &row == &rows.front() ? "-" : text_of(row.test_accuracy_difference)};
    if (target) {
      cells.push_back(row.seconds_to_target ? fmt::format("{:.2f}", *row.seconds_to_target)
                                            : "not reached");
    }
    text += table.row(cells) + "\n";
  }
  if (several && rows.size() > 1) {
    text +=
        "differences in accuracy to the first row, seed by seed; after ± half of the 95 % "
        "confidence interval\n";
  }
  return text;
}

std::string json_text(const std::vector<CompareRow>& rows) {
  ordered_json list = ordered_json::array();
  for (const CompareRow& row : rows) list.push_back(json_of(row));
  return ordered_json{{"rows", list}}.dump(2) + "\n";
}

std::string csv_text(const std::vector<CompareRow>& rows) {
  std::string text;
  for (const CompareRow& row : rows) {
    ordered_json one = json_of(row);
    one.erase("runs");
    std::vector<std::string> names;
    std::vector<std::string> cells;
    for (const auto& [name, value] : one.items()) {
      names.push_back(name);
      cells.push_back(csv_cell(value));
    }
    if (text.empty()) text = join(names, ",") + "\n";
    text += join(cells, ",") + "\n";
  }
  return text;
}

}  // namespace daso::cli
