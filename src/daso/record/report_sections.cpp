// SPDX-License-Identifier: Apache-2.0
#include "daso/record/report_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daso/base/text.h"
#include "daso/record/metrics.h"
#include "daso/record/report_seeds.h"
#include "daso/record/report_text.h"

namespace daso {
namespace {

using nlohmann::json;

std::string with_detail(const std::string& value, const std::string& detail) {
  if (value.empty() || detail.empty()) return value;
  return fmt::format("{} <small>{}</small>", value, detail);
}

// A value as it is in the file, and as people read it.
std::string field(const json& figures, const char* name, const std::string& shown) {
  const json& value = figures.at(name);
  const std::string exact = value.is_string() ? value.get<std::string>() : value.dump();
  return fmt::format(R"(<span data-field="{}" data-value="{}">{}</span>)", name, html_text(exact),
                     html_text(shown));
}

// A number of the figures; `show` writes it. JSON has null where a number was not finite.
template <typename Show>
std::string number_field(const json& figures, const char* name, Show show) {
  if (!figures.contains(name)) return "";
  const auto number = number_in(figures, name);
  const std::string value = field(figures, name, number ? show(*number) : "not a number");
  // Over the seeds, where there are several.
  const auto deviation = number_in(figures, (std::string(name) + kDeviation).c_str());
  return deviation ? with_detail(value, "&plusmn; " + html_text(show(*deviation))) : value;
}

std::string count_text(double number) { return with_separators(number, 0); }
std::string loss_text(double loss) { return fmt::format("{:.4f}", loss); }

std::string accuracy_of(const json& figures) {
  const auto percent = [](double share) { return fmt::format("{:.2f} %", 100 * share); };
  std::string detail;
  const auto add = [&](const char* title, const std::string& value) {
    if (!value.empty()) detail += fmt::format("{}{} {}", detail.empty() ? "" : ", ", title, value);
  };
  add("top-5", number_field(figures, "top5", percent));
  add("loss", number_field(figures, "test_loss", loss_text));
  add("perplexity", number_field(figures, "perplexity", short_number));
  return with_detail(number_field(figures, "test_accuracy", percent), detail);
}

// 4 ranks, 1 rank
std::string counted(const json& figures, const char* name, const char* one, const char* many) {
  const std::string number = number_field(figures, name, count_text);
  return with_detail(number, number_in(figures, name) == 1.0 ? one : many);
}

std::string listed(const std::string& first, const std::string& second) {
  return first.empty() || second.empty() ? first + second : first + "<small>,</small> " + second;
}

std::string world_of(const json& figures) {
  return listed(counted(figures, "nodes", "node", "nodes"),
                counted(figures, "ranks", "rank", "ranks"));
}

std::string length_of(const json& figures) {
  std::string steps = counted(figures, "steps", "step", "steps");
  const std::string epochs = number_field(figures, "epochs", count_text);
  if (steps.empty() || epochs.empty()) return steps;
  return with_detail(
      steps, fmt::format("in {} epoch{}", epochs, number_in(figures, "epochs") == 1.0 ? "" : "s"));
}

std::string time_of(const json& figures) {
  const auto seconds = number_in(figures, "seconds");
  return with_detail(number_field(figures, "seconds", seconds_text),
                     seconds ? duration_text(*seconds) : "");
}

std::string waiting_of(const json& figures) {
  const auto waited = number_in(figures, "wait_seconds");
  const auto seconds = number_in(figures, "seconds");
  std::string detail = number_field(figures, "wait_seconds", seconds_text);
  if (!waited || !seconds || *seconds <= 0) return detail;
  const json share = {{"wait_share", *waited / *seconds}};
  return with_detail(number_field(share, "wait_share", percent_text), detail);
}

std::string traffic_of(const json& figures) {
  return number_field(figures, "bytes_between_nodes", bytes_text);
}

struct Headline {
  const char* title;
  std::string (*value)(const json& figures);
  bool of_devices = false;  // left out of a table where no run had one
};

const std::array kHeadlines{
    Headline{"Strategy",
             [](const json& figures) {
               if (!figures.contains("strategy") || !figures["strategy"].is_string())
                 return std::string();
               return field(figures, "strategy", figures["strategy"].get<std::string>());
             }},
    Headline{"World", world_of},
    Headline{"Length", length_of},
    Headline{"Test accuracy", accuracy_of},
    Headline{"Time", time_of},
    Headline{"Speed",
             [](const json& figures) {
               return with_detail(number_field(figures, "samples_per_second", short_number),
                                  "samples/s");
             }},
    Headline{"Waiting", waiting_of},
    Headline{"Between nodes", traffic_of},
    Headline{"Device memory",
             [](const json& figures) {
               return number_field(figures, metric("device_memory"), bytes_text);
             },
             /*of_devices=*/true},
    Headline{"Device at work",
             [](const json& figures) {
               return number_field(figures, metric("device_share"), percent_text);
             },
             /*of_devices=*/true},
    Headline{"Exchanges",
             [](const json& figures) { return number_field(figures, "exchanges", count_text); }},
    Headline{"Mean staleness",
             [](const json& figures) {
               // Nothing was merged late: a merge is at least a step old.
               if (number_in(figures, "staleness_mean").value_or(0) <= 0) return std::string();
               return with_detail(number_field(figures, "staleness_mean", short_number), "steps");
             }},
};

std::string headline_list(const ReportedRun& run) {
  std::string items;
  for (const Headline& headline : kHeadlines) {
    const std::string value = headline.value(run.figures);
    if (value.empty()) continue;
    items += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", headline.title, value);
  }
  return fmt::format("<dl class=\"figures\">\n{}</dl>\n", items);
}

std::string headline_table(const ReportedRuns& runs) {
  std::string rows;
  const auto is_known = [&](const Headline& headline) {
    return std::any_of(runs.begin(), runs.end(), [&](const ReportedRun& run) {
      return !headline.value(run.figures).empty();
    });
  };
  for (const Headline& headline : kHeadlines) {
    if (headline.of_devices && !is_known(headline)) continue;
    rows += fmt::format("<tr><th scope=\"row\">{}</th>", headline.title);
    for (const ReportedRun& run : runs) {
      const std::string value = headline.value(run.figures);
      rows += fmt::format("<td>{}</td>", value.empty() ? kAbsent : value);
    }
    rows += "</tr>\n";
  }
  return fmt::format(
      "<div class=\"scroll\"><table class=\"figures\">\n{}<tbody>\n{}</tbody></table></div>\n",
      labels_row(runs, "Run"), rows);
}

}  // namespace

std::string labels_row(const ReportedRuns& runs, const char* first) {
  std::string row = fmt::format("<thead><tr><th scope=\"col\">{}</th>", first);
  for (const ReportedRun& run : runs) {
    row += fmt::format("<th scope=\"col\">{}</th>", html_text(run.label));
  }
  return row + "</tr></thead>\n";
}

// "cnn on synthetic", "cnn, mlp on cifar10:data"
std::string subject_line(const ReportedRuns& runs) {
  std::vector<std::string> models;
  std::vector<std::string> data;
  double last = 0;
  const auto add = [](std::vector<std::string>& names, const std::string& name) {
    const bool there = std::find(names.begin(), names.end(), name) != names.end();
    if (!name.empty() && !there) names.push_back(name);
  };
  for (const ReportedRun& run : runs) {
    add(models, run.model);
    add(data, run.data);
    last = std::max(last, run.last.value_or(0));
  }
  std::vector<std::string> parts;
  if (!models.empty()) parts.push_back(html_text(join(models, ", ")));
  if (!data.empty()) parts.push_back("on " + html_text(join(data, ", ")));
  if (last > 0) parts.push_back("&middot; " + date_text(last));
  return parts.empty() ? "" : fmt::format("<p class=\"subject\">{}</p>\n", join(parts, " "));
}

std::string notes_section(const ReportedRuns& runs) {
  std::string notes;
  for (const ReportedRun& run : runs) {
    const auto exit = number_in(run.figures, "exit");
    const auto steps = number_in(run.figures, "steps");
    std::string text;
    if (!run.finished) {
      text = fmt::format(
          " is still going, or was stopped without a summary: this is what is known after {} "
          "steps.",
          count_text(steps.value_or(0)));
    } else if (exit.value_or(0) != 0) {
      text = fmt::format(" ended with exit code {:.0f}.", *exit);
    }
    if (text.empty()) continue;
    notes += fmt::format("<p class=\"note\"><b>{}</b>{}</p>\n", html_text(run.label), text);
  }
  return notes;
}

std::string headline_section(const ReportedRuns& runs) {
  return fmt::format("<section id=\"headline\">\n<h2>Headline figures</h2>\n{}</section>\n",
                     runs.size() == 1 ? headline_list(runs.front()) : headline_table(runs));
}

}  // namespace daso
