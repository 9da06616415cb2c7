// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daso/record/report_data.h"

// The parts of a report, as HTML; each is empty where its runs have nothing to show.
namespace daso {

using ReportedRuns = std::vector<ReportedRun>;

// What a table has where a run has no value.
inline constexpr const char* kAbsent = "<span class=\"muted\">&ndash;</span>";
// The head of a table with a column for each run.
std::string labels_row(const ReportedRuns& runs, const char* first);

// What was trained, on what, and when.
std::string subject_line(const ReportedRuns& runs);
// What a reader must know before the figures: a run that is not finished, or that failed.
std::string notes_section(const ReportedRuns& runs);
// Every value of summary.json that it shows stands in an element with data-field, its name there,
// and data-value, the exact value.
std::string headline_section(const ReportedRuns& runs);
std::string budget_section(const ReportedRuns& runs);
// Why ranks were blocked in communication, and what would help: a part of the time budget.
std::string causes_part(const ReportedRuns& runs);
std::string late_section(const ReportedRuns& runs);
// Of runs that have had more than one view.
std::string members_section(const ReportedRuns& runs);
std::string configuration_section(const ReportedRuns& runs);
// Links as seen from `folder`.
std::string files_section(const ReportedRuns& runs, const std::filesystem::path& folder);

// What the page's script draws, as JSON that may stand in a <script> element.
std::string curve_data(const ReportedRuns& runs);

}  // namespace daso
