// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "daso/base/timeline.h"
#include "daso/record/metrics.h"
#include "daso/record/report_sections.h"
#include "daso/record/report_seeds.h"
#include "daso/record/report_text.h"

// Exposed communication by its causes, with a word on what would make it less.
namespace daso {
namespace {

using nlohmann::json;

constexpr double kWorthAWord = 0.05;  // of a run's time

constexpr std::array<const char*, kCauses> kTitles{"Gradients of all ranks",
                                                   "Gradients of the node",
                                                   "Merges",
                                                   "Agreements at the ends of epochs",
                                                   "Evaluation",
                                                   "Batch statistics",
                                                   "Other"};
constexpr auto kAllGradients = static_cast<std::size_t>(Cause::kAllGradients);

bool has_phases(const ReportedRun& run) {
  return std::any_of(run.records.begin(), run.records.end(),
                     [](const json& record) { return record.contains(metric("phase")); });
}

// Of a mean node.
json budget_of(const ReportedRun& run) {
  const auto nodes = run.figures.find("time_budget");
  if (nodes == run.figures.end() || !nodes->is_array() || nodes->empty()) return {};
  return mean_of(std::vector<json>(nodes->begin(), nodes->end()));
}

double seconds_of(const json& budget, std::size_t cause) {
  if (!budget.is_object() || !budget.contains("exposed_by_cause")) return 0;
  return number_in(budget["exposed_by_cause"], kCauseNames[cause]).value_or(0);
}

// Strategies with phases average all gradients in some of them only.
std::string title_of(std::size_t cause, const ReportedRuns& runs) {
  if (cause != kAllGradients) return kTitles[cause];
  const auto with = std::count_if(runs.begin(), runs.end(), has_phases);
  if (with == 0) return kTitles[cause];
  return with == std::ssize(runs)
             ? "Warm-up and cool-down"
             : "Gradients of all ranks, in every step or in warm-up and cool-down";
}

// In the words of the settings, of which this layer knows no more.
const char* help_for(Cause cause, const ReportedRun& run) {
  const bool merges_late = number_in(run.figures, "staleness_mean").value_or(0) > 0;
  switch (cause) {
    case Cause::kAllGradients:
      return has_phases(run) ? "Warm-up and cool-down average gradients over all ranks in every "
                               "step: fewer epochs of warm-up or cool-down would help."
                             : "Gradients are averaged over all ranks in every step: strategy daso "
                               "exchanges parameters in the background instead.";
    case Cause::kNodeGradients:
      return "The ranks of a node waited for the slowest of them: see who was late.";
    case Cause::kMerges:
      return merges_late ? "Exchanges were not back when they were due: a longer wait, a larger "
                           "skip or a smaller wire would help."
                         : "Parameters were averaged while all ranks waited: strategy daso does it "
                           "in the background.";
    case Cause::kAgreements:
      return "All ranks meet at the end of an epoch: longer epochs have fewer ends, and a rank "
             "that "
             "comes late makes the others wait; see who was late.";
    case Cause::kEvaluation:
      return "Ranks that had evaluated their part waited for the others: see who was late.";
    case Cause::kStatistics:
      return "BatchNorm statistics that a node shares make its ranks wait for each other in every "
             "such layer.";
    case Cause::kOther:
      break;
  }
  return "";
}

// About the largest cause, where it is worth it.
std::string hint_of(const ReportedRun& run, bool several) {
  const json budget = budget_of(run);
  std::size_t most = 0;
  for (std::size_t cause = 1; cause < kCauses; ++cause) {
    if (seconds_of(budget, cause) > seconds_of(budget, most)) most = cause;
  }
  const double share = seconds_of(budget, most) / number_in(budget, "seconds").value_or(1);
  const std::string help = help_for(static_cast<Cause>(most), run);
  if (share < kWorthAWord || help.empty()) return "";
  return fmt::format("<li>{}{} of the time: {}</li>\n",
                     several ? fmt::format("<b>{}</b>: ", html_text(run.label)) : "",
                     percent_text(share), help);
}

std::string row_of(std::size_t cause, const ReportedRuns& runs) {
  std::string cells;
  bool any = false;
  for (const ReportedRun& run : runs) {
    const json budget = budget_of(run);
    const double seconds = seconds_of(budget, cause);
    any = any || seconds > 0;
    cells += seconds > 0
                 ? fmt::format("<td>{} <small>{}</small></td>", seconds_text(seconds),
                               percent_text(seconds / number_in(budget, "seconds").value_or(1)))
                 : fmt::format("<td>{}</td>", kAbsent);
  }
  if (!any) return "";
  return fmt::format("<tr><th scope=\"row\">{}</th>{}</tr>\n", title_of(cause, runs), cells);
}

}  // namespace

std::string causes_part(const ReportedRuns& runs) {
  std::string rows;
  for (std::size_t cause = 0; cause < kCauses; ++cause) rows += row_of(cause, runs);
  if (rows.empty()) return "";
  std::string hints;
  for (const ReportedRun& run : runs) hints += hint_of(run, runs.size() > 1);
  return fmt::format(
      "<h3>Exposed communication by cause <small>mean over the nodes</small></h3>\n"
      "<div class=\"scroll\"><table class=\"numbers "
      "causes\">\n{}<tbody>\n{}</tbody></table></div>\n"
      "{}",
      labels_row(runs, "Cause"), rows,
      hints.empty() ? "" : fmt::format("<ul class=\"hints\">\n{}</ul>\n", hints));
}

}  // namespace daso
