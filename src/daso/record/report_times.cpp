// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daso/record/lateness.h"
#include "daso/record/report_sections.h"
#include "daso/record/report_seeds.h"
#include "daso/record/report_text.h"

// Where the time of a run went, and whom the others waited for.
namespace daso {
namespace {

using nlohmann::json;

struct Part {
  const char* field;
  const char* title;
};

// In the order in which they are stacked; they add up to a node's seconds.
constexpr std::array kParts{
    Part{"compute", "Compute"}, Part{"exposed_communication", "Exposed communication"},
    Part{"data", "Data"}, Part{"evaluation", "Evaluation"}, Part{"checkpoint", "Checkpoint"}};
constexpr Part kHidden = {"hidden_communication", "Hidden communication"};
// A part of the width below this has no room for a number, or none on a phone.
constexpr double kRoomForText = 0.05;
constexpr double kRoomOnPhone = 0.16;
constexpr std::size_t kRanksInSight = 8;  // the other rows are folded away
constexpr std::size_t kNodesInSight = 8;  // of one run; more nodes, and those of several, are too

json list_in(const ReportedRun& run, const char* field) {
  const auto found = run.figures.find(field);
  if (found == run.figures.end() || !found->is_array()) return json::array();
  json objects = json::array();
  std::copy_if(found->begin(), found->end(), std::back_inserter(objects),
               [](const json& entry) { return entry.is_object(); });
  return objects;
}

double value_of(const json& entry, const char* field) {
  return number_in(entry, field).value_or(0);
}

double share_of(const json& node, const char* field) {
  const double seconds = value_of(node, "seconds");
  return seconds > 0 ? value_of(node, field) / seconds : 0;
}

// A node's bar, as long as its time is of the longest of all, and beneath it a thin one for what
// was hidden.
std::string bars_of(const json& node, double longest) {
  const double length = longest > 0 ? value_of(node, "seconds") / longest : 0;
  std::string parts;
  for (const Part& part : kParts) {
    const double share = share_of(node, part.field);
    if (share <= 0) continue;
    const double room = share * length;
    parts += fmt::format(
        R"(<span class="part {}{}" style="flex-grow:{:.6f}" title="{}: {}, {}">{}</span>)",
        part.field, room < kRoomOnPhone ? " narrow" : "", share, part.title,
        seconds_text(value_of(node, part.field)), percent_text(share),
        room < kRoomForText ? "" : fmt::format("{:.0f} %", 100 * share));
  }
  const double hidden = std::clamp(share_of(node, kHidden.field), 0.0, 1.0);
  return fmt::format(
      "<div class=\"bars\"><div class=\"bar\" style=\"width:{:.3f}%\">{}</div>"
      "<div class=\"thin\" style=\"width:{:.3f}%\" title=\"{}: {}\"></div></div>",
      100 * length, parts, 100 * length * hidden, kHidden.title,
      seconds_text(value_of(node, kHidden.field)));
}

std::string key_of_parts() {
  std::string key = "<ul class=\"key\">";
  for (const Part& part : kParts) {
    key += fmt::format("<li><i class=\"part {}\"></i>{}</li>", part.field, part.title);
  }
  return key + fmt::format("<li><i class=\"thin\"></i>{}</li></ul>\n", kHidden.title);
}

// A column of the table of numbers, and a bar: a node of a run, or the mean of its nodes.
struct Cell {
  std::string title;
  std::size_t run = 0;
  json node;
};

std::string table_row(const std::vector<Cell>& cells, const Part& part, const char* kind) {
  std::string row = fmt::format(R"(<tr class="{}"><th scope="row">{}</th>)", kind, part.title);
  for (const Cell& cell : cells) {
    row +=
        fmt::format("<td>{} <small>{}</small></td>", seconds_text(value_of(cell.node, part.field)),
                    percent_text(share_of(cell.node, part.field)));
  }
  return row + "</tr>\n";
}

// The line of the table's head that says which run the nodes below are of.
std::string heads_of_runs(const ReportedRuns& runs, const std::vector<Cell>& cells) {
  std::string heads;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto nodes =
        std::count_if(cells.begin(), cells.end(), [&](const Cell& cell) { return cell.run == i; });
    if (nodes == 0) continue;
    heads += fmt::format(R"(<th scope="colgroup" colspan="{}">{}</th>)", nodes,
                         html_text(runs[i].label));
  }
  return fmt::format(R"(<tr class="of-runs"><td></td>{}</tr>)", heads);
}

std::string budget_table(const std::vector<Cell>& cells, const std::string& above) {
  std::string heads;
  for (const Cell& cell : cells) {
    heads += fmt::format("<th scope=\"col\">{}</th>", html_text(cell.title));
  }
  std::string rows;
  for (const Part& part : kParts) rows += table_row(cells, part, "of-sum");
  rows += table_row(cells, {"seconds", "Sum"}, "sum");
  rows += table_row(cells, kHidden, "beneath");
  return fmt::format(
      "<div class=\"scroll\"><table class=\"numbers\"><thead>{}<tr><th scope=\"col\">Part</th>{}"
      "</tr></thead>\n<tbody>{}</tbody></table></div>\n",
      above, heads, rows);
}

std::string bars(const std::vector<Cell>& cells, const char* kind) {
  double longest = 0;
  for (const Cell& cell : cells) longest = std::max(longest, value_of(cell.node, "seconds"));
  std::string rows;
  for (const Cell& cell : cells) {
    rows += fmt::format("<div class=\"node {}\"><span>{}</span>{}<span>{}</span></div>\n", kind,
                        html_text(cell.title), bars_of(cell.node, longest),
                        seconds_text(value_of(cell.node, "seconds")));
  }
  return fmt::format("<div class=\"budget\">\n{}</div>\n", rows);
}

std::vector<Cell> nodes_of(const ReportedRuns& runs) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (const json& node : list_in(runs[i], "time_budget")) {
      cells.push_back({fmt::format("Node {:.0f}", value_of(node, "node")), i, node});
    }
  }
  return cells;
}

std::vector<Cell> means_of(const ReportedRuns& runs) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const json list = list_in(runs[i], "time_budget");
    if (list.empty()) continue;
    const std::string title = runs.size() > 1 ? runs[i].label : "All nodes";
    cells.push_back({title, i, mean_of(std::vector<json>(list.begin(), list.end()))});
  }
  return cells;
}

std::string late_row(const json& rank, double longest) {
  const double seconds = value_of(rank, "seconds");
  return fmt::format(
      "<tr><th scope=\"row\">{:.0f}</th><td>{:.0f}</td><td>{}</td><td>{}</td><td class=\"wide\">"
      "<div class=\"late-bar\" style=\"width:{:.2f}%\"></div></td></tr>\n",
      value_of(rank, "rank"), value_of(rank, "node"), with_separators(value_of(rank, "times"), 0),
      seconds_text(seconds), longest > 0 ? 100 * seconds / longest : 0);
}

std::string late_table(const std::vector<json>& ranks, double longest) {
  std::string rows;
  for (const json& rank : ranks) rows += late_row(rank, longest);
  return fmt::format(
      "<table class=\"numbers late\"><thead><tr><th scope=\"col\">Rank</th><th scope=\"col\">Node"
      "</th><th scope=\"col\">Times</th><th scope=\"col\">In all</th><th></th></tr></thead>\n"
      "<tbody>{}</tbody></table>\n",
      rows);
}

std::string late_ranks(const ReportedRun& run) {
  const json list = list_in(run, "late");
  std::vector<json> ranks(list.begin(), list.end());
  if (ranks.empty()) return "";
  std::stable_sort(ranks.begin(), ranks.end(), [](const json& a, const json& b) {
    return value_of(a, "seconds") > value_of(b, "seconds");
  });
  const double longest = value_of(ranks.front(), "seconds");
  if (longest <= 0)
    return fmt::format("<p>No rank was late by more than {:.0f} ms.</p>\n", 1e3 * kLateSeconds);
  const std::size_t shown = std::min(ranks.size(), kRanksInSight);
  const std::vector<json> first(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown));
  const std::vector<json> rest(ranks.begin() + static_cast<std::ptrdiff_t>(shown), ranks.end());
  std::string table = late_table(first, longest);
  if (!rest.empty()) {
    table += fmt::format("<details><summary>{} more ranks</summary>\n{}</details>\n", rest.size(),
                         late_table(rest, longest));
  }
  return table;
}

}  // namespace

std::string budget_section(const ReportedRuns& runs) {
  const std::vector<Cell> nodes = nodes_of(runs);
  if (nodes.empty()) return "";
  // Too many bars hide what they show: then runs are seen by their means.
  const bool by_node = runs.size() == 1 && nodes.size() <= kNodesInSight;
  const std::vector<Cell> means = means_of(runs);
  const std::string content =
      by_node ? bars(nodes, "") + budget_table(nodes, "")
              : bars(means, "of-run") + budget_table(means, "") +
                    fmt::format("<details><summary>Each of {} nodes</summary>\n{}</details>\n",
                                nodes.size(), budget_table(nodes, heads_of_runs(runs, nodes)));
  return fmt::format(
      "<section id=\"budget\">\n<h2>Time budget</h2>\n<p class=\"explain\">Where {} "
      "time went, mean over {}. Exposed communication kept a rank waiting. Hidden communication "
      "ran beneath the rest and is no part of the sum.</p>\n{}{}{}</section>\n",
      by_node ? "each node&rsquo;s" : "each run&rsquo;s", by_node ? "its ranks" : "all ranks",
      key_of_parts(), content, causes_part(runs));
}

std::string late_section(const ReportedRuns& runs) {
  std::string content;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const bool seen = std::any_of(runs[i].records.begin(), runs[i].records.end(), was_late);
    const std::string table = late_ranks(runs[i]);
    if (table.empty() && !seen) continue;
    content += "<div class=\"run\">\n";
    if (runs.size() > 1) content += fmt::format("<h3>{}</h3>\n", html_text(runs[i].label));
    if (!table.empty()) content += fmt::format("<div>{}</div>\n", table);
    if (seen) content += fmt::format("<div data-late=\"{}\"></div>\n", i);
    content += "</div>\n";
  }
  if (content.empty()) return "";
  return fmt::format(
      "<section id=\"late\">\n<h2>Who was late</h2>\n<p class=\"explain\">How often a rank was the "
      "last to arrive by more than {:.0f} ms, and by how much in all. Dots are those times that "
      "metrics.jsonl has a record of; the larger, the later.</p>\n<div "
      "class=\"pair\">\n{}</div>\n</section>\n",
      1e3 * kLateSeconds, content);
}

}  // namespace daso
