// SPDX-License-Identifier: Apache-2.0
#include "daso/record/report_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daso/base/paths.h"
#include "daso/record/report_text.h"

namespace daso {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kAbsent = "<span class=\"muted\">&ndash;</span>";

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
  return field(figures, name, number ? show(*number) : "not a number");
}

std::string count_text(double number) { return with_separators(number, 0); }
std::string loss_text(double loss) { return fmt::format("{:.4f}", loss); }

std::string with_detail(const std::string& value, const std::string& detail) {
  if (value.empty() || detail.empty()) return value;
  return fmt::format("{} <small>{}</small>", value, detail);
}

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
    Headline{"Exchanges",
             [](const json& figures) { return number_field(figures, "exchanges", count_text); }},
    Headline{"Mean staleness",
             [](const json& figures) {
               if (number_in(figures, "exchanges") == 0.0) return std::string();
               return with_detail(number_field(figures, "staleness_mean", short_number), "steps");
             }},
};

std::string labels_row(const ReportedRuns& runs, const char* first) {
  std::string row = fmt::format("<thead><tr><th scope=\"col\">{}</th>", first);
  for (const ReportedRun& run : runs) {
    row += fmt::format("<th scope=\"col\">{}</th>", html_text(run.label));
  }
  return row + "</tr></thead>\n";
}

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
  for (const Headline& headline : kHeadlines) {
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

const std::string* value_in(const ReportedRun& run, const std::string& key) {
  const auto found = std::find_if(run.configuration.begin(), run.configuration.end(),
                                  [&](const auto& entry) { return entry.first == key; });
  return found == run.configuration.end() ? nullptr : &found->second;
}

bool differs(const ReportedRuns& runs, const std::string& key) {
  const std::string* first = value_in(runs.front(), key);
  return std::any_of(runs.begin(), runs.end(), [&](const ReportedRun& run) {
    const std::string* value = value_in(run, key);
    return (value == nullptr) != (first == nullptr) || (value != nullptr && *value != *first);
  });
}

// Every key of any run, those that differ first.
std::vector<std::string> all_keys(const ReportedRuns& runs) {
  std::vector<std::string> keys;
  for (const ReportedRun& run : runs) {
    for (const auto& [key, value] : run.configuration) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  std::stable_partition(keys.begin(), keys.end(),
                        [&](const std::string& key) { return differs(runs, key); });
  return keys;
}

std::string hint_of(const std::string& name) {
  if (name == "trace.json") {
    return "what every rank did when; open it in <a rel=\"noreferrer\" "
           "href=\"https://ui.perfetto.dev\">ui.perfetto.dev</a> or chrome://tracing";
  }
  if (name.starts_with("events.out.tfevents.")) return "for tensorboard --logdir";
  if (name == "metrics.jsonl") return "a record every few steps";
  if (name == "summary.json") return "the figures above, exact";
  if (name == "config.toml") return "daso train --config does the run again";
  if (name == "best.safetensors") return "the model of the best epoch";
  if (name == "checkpoints") return "daso eval, export and train --resume take them";
  return "";
}

std::string file_item(const fs::path& file, const fs::path& folder) {
  const std::string name = file.filename().string();
  std::error_code failed;
  const auto bytes = fs::file_size(file, failed);  // a folder has none
  std::error_code apart;
  fs::path relative = fs::proximate(file, folder, apart);
  if (apart) relative = file;
  return fmt::format("<li><a href=\"{}\">{}</a> <span class=\"muted\">{}{}</span></li>\n",
                     link_to(relative), html_text(name),
                     failed ? "" : bytes_text(static_cast<double>(bytes)) + ", ", hint_of(name));
}

std::string files_of(const ReportedRun& run, const fs::path& folder) {
  std::string items;
  for (const std::string& name : names_in(run.folder)) {
    if (!hint_of(name).empty()) items += file_item(run.folder / name, folder);
  }
  return fmt::format("<ul class=\"files\">\n{}</ul>\n", items);
}

}  // namespace

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

std::string configuration_section(const ReportedRuns& runs) {
  std::string rows;
  for (const std::string& key : all_keys(runs)) {
    const bool marked = differs(runs, key);
    rows += fmt::format("<tr{}><th scope=\"row\">{}{}</th>", marked ? " class=\"differs\"" : "",
                        html_text(key),
                        marked ? " <abbr title=\"differs between these runs\">&ne;</abbr>" : "");
    for (const ReportedRun& run : runs) {
      const std::string* value = value_in(run, key);
      rows += fmt::format("<td>{}</td>", value == nullptr ? kAbsent : html_text(*value));
    }
    rows += "</tr>\n";
  }
  if (rows.empty()) return "";
  return fmt::format(
      "<section id=\"configuration\">\n<h2>Configuration</h2>\n<p class=\"explain\">All flags as "
      "the "
      "run resolved them.{}</p>\n<div class=\"scroll{}\"><table class=\"settings\">\n{}<tbody>\n{}"
      "</tbody></table></div>\n</section>\n",
      runs.size() == 1 ? "" : " Those marked &ne; differ between these runs and stand first.",
      runs.size() == 1 ? " columns" : "", runs.size() == 1 ? "" : labels_row(runs, "Flag"), rows);
}

std::string files_section(const ReportedRuns& runs, const fs::path& folder) {
  std::string lists;
  for (const ReportedRun& run : runs) {
    if (runs.size() > 1) lists += fmt::format("<h3>{}</h3>\n", html_text(run.label));
    lists += files_of(run, folder);
  }
  return fmt::format("<section id=\"files\">\n<h2>Files</h2>\n{}</section>\n", lists);
}

}  // namespace daso
