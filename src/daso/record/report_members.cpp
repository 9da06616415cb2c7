// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "daso/record/report_sections.h"
#include "daso/record/report_text.h"

// Which nodes belonged to a run when. By the clock and not by steps, since a node that is lost has
// none meanwhile.
namespace daso {
namespace {

constexpr std::size_t kViewsInSight = 8;  // the table of more is folded away

// From its first view to the last word of the run.
struct Stretch {
  double begin = 0;
  double end = 0;

  double percent(double time) const {
    const double share = end > begin ? (time - begin) / (end - begin) : 0;
    return 100 * std::clamp(share, 0.0, 1.0);
  }
};

Stretch stretch_of(const ReportedRun& run) {
  const double last = run.views.back().time;
  return {.begin = run.views.front().time, .end = std::max(last, run.last.value_or(last))};
}

bool has_node(const std::vector<int>& nodes, int id) {
  return std::find(nodes.begin(), nodes.end(), id) != nodes.end();
}

std::string bar_between(const Stretch& stretch, double from, double to) {
  return fmt::format(R"(<span style="left:{:.3f}%;width:{:.3f}%"></span>)", stretch.percent(from),
                     stretch.percent(to) - stretch.percent(from));
}

std::string mark_at(const Stretch& stretch, const ViewRecord& view, const char* kind) {
  return fmt::format(
      R"(<i class="{}" style="left:{:.3f}%" title="{} after {}, view {}, step {}"></i>)", kind,
      stretch.percent(view.time), kind, seconds_text(view.time - stretch.begin), view.number,
      view.step);
}

// How long the change held this node up, which belongs to both views.
std::string stall_before(const Stretch& stretch, const ViewRecord& view) {
  if (!view.stall) return "";
  const double left = stretch.percent(view.time - *view.stall);
  return fmt::format(R"(<b style="left:{:.3f}%;width:{:.3f}%" title="stall of {}, view {}"></b>)",
                     left, stretch.percent(view.time) - left, seconds_text(*view.stall),
                     view.number);
}

// The bars of the times in which a node was a member, and marks where these begin and end; those of
// the run itself have none.
std::string row_of(const ReportedRun& run, int id) {
  const Stretch stretch = stretch_of(run);
  std::string bars;
  std::string stalls;
  std::string marks;
  std::optional<double> since;
  for (const ViewRecord& view : run.views) {
    if (since && !has_node(view.lost, id)) stalls += stall_before(stretch, view);
    if (since && (has_node(view.lost, id) || !has_node(view.nodes, id))) {
      bars += bar_between(stretch, *since, view.time);
      marks += mark_at(stretch, view, has_node(view.left, id) ? "left" : "lost");
      since.reset();
    }
    if (since || !has_node(view.nodes, id)) continue;
    since = view.time;
    if (&view != &run.views.front()) marks += mark_at(stretch, view, "joined");
  }
  if (since) bars += bar_between(stretch, *since, stretch.end);
  return fmt::format(
      "<div class=\"node\" data-node=\"{0}\"><span>Node {0}</span><div class=\"track\">{1}{2}{3}"
      "</div></div>\n",
      id, bars, stalls, marks);
}

std::string rows_of(const ReportedRun& run) {
  std::map<int, std::string> rows;
  for (const ViewRecord& view : run.views) {
    for (const int id : view.nodes) {
      if (!rows.contains(id)) rows[id] = row_of(run, id);
    }
  }
  std::string all;
  for (const auto& [id, row] : rows) all += row;
  const Stretch stretch = stretch_of(run);
  return fmt::format(
      "<div class=\"members\">\n{}<div class=\"node ends\"><span></span><div><span>0 s</span>"
      "<span>{}</span></div></div>\n</div>\n",
      all, seconds_text(stretch.end - stretch.begin));
}

std::string ids_text(const std::vector<int>& ids) {
  return ids.empty() ? kAbsent : fmt::format("{}", fmt::join(ids, ", "));
}

std::string table_of(const ReportedRun& run) {
  std::string rows;
  for (const ViewRecord& view : run.views) {
    rows += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td>{}</td><td>{}</td></tr>\n",
        view.number, seconds_text(view.time - run.views.front().time),
        view.stall ? seconds_text(*view.stall) : kAbsent, view.epoch + 1,
        with_separators(static_cast<double>(view.step), 0), ids_text(view.nodes),
        ids_text(view.lost), ids_text(view.left), ids_text(view.joined));
  }
  const std::string table = fmt::format(
      "<div class=\"scroll\"><table class=\"numbers\"><thead><tr><th scope=\"col\">View</th>"
      "<th scope=\"col\">From</th><th scope=\"col\">Stall</th><th scope=\"col\">Epoch</th><th "
      "scope=\"col\">Step</th>"
      "<th scope=\"col\">Nodes</th><th scope=\"col\">Lost</th><th scope=\"col\">Left</th>"
      "<th scope=\"col\">Joined</th></tr></thead>\n<tbody>{}</tbody></table></div>\n",
      rows);
  if (run.views.size() <= kViewsInSight) return table;
  return fmt::format("<details><summary>All {} views</summary>\n{}</details>\n", run.views.size(),
                     table);
}

}  // namespace

std::string members_section(const ReportedRuns& runs) {
  std::string content;
  for (const ReportedRun& run : runs) {
    if (run.views.size() < 2) continue;
    if (runs.size() > 1) content += fmt::format("<h3>{}</h3>\n", html_text(run.label));
    content += rows_of(run) + table_of(run);
  }
  if (content.empty()) return "";
  return fmt::format(
      "<section id=\"members\">\n<h2>Members</h2>\n<p class=\"explain\">Which nodes belonged to "
      "the run when, by the clock. A view ends when a node is lost, leaves or joins; the others go "
      "on, and the change holds them up for the time of its stall.</p>\n<ul class=\"key\"><li><i "
      "class=\"member\"></i>Member</li><li><i "
      "class=\"stall\"></i>Stall</li><li><i class=\"lost\"></i>Lost</li><li><i "
      "class=\"left\"></i>Left</li><li><i "
      "class=\"joined\"></i>Joined</li></ul>\n{}</section>\n",
      content);
}

}  // namespace daso
