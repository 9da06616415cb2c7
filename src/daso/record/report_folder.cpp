// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "daso/base/paths.h"
#include "daso/record/report_sections.h"
#include "daso/record/report_text.h"

// What the folders of the runs hold: their configuration and their files.
namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kRunsInSight = 4;  // the files of more are folded away

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
  if (name == "membership.jsonl") return "which nodes were members when, what became of exchanges";
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

std::string files_of(const fs::path& run, const fs::path& folder) {
  std::string items;
  for (const std::string& name : names_in(run)) {
    if (!hint_of(name).empty()) items += file_item(run / name, folder);
  }
  return fmt::format("<ul class=\"files\">\n{}</ul>\n", items);
}

}  // namespace

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
  std::size_t all = 0;
  for (const ReportedRun& run : runs) {
    all += run.folders.size();
    for (const fs::path& one : run.folders) {
      const std::string seed =
          run.folders.size() > 1 ? fmt::format(" <small>{}</small>", html_text(one.string())) : "";
      if (runs.size() > 1 || !seed.empty()) {
        lists += fmt::format("<h3>{}{}</h3>\n", html_text(run.label), seed);
      }
      lists += files_of(one, folder);
    }
  }
  if (all > kRunsInSight) {
    lists = fmt::format("<details><summary>Of {} runs</summary>\n{}</details>\n", all, lists);
  }
  return fmt::format("<section id=\"files\">\n<h2>Files</h2>\n{}</section>\n", lists);
}

}  // namespace daso
