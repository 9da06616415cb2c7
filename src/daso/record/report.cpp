// SPDX-License-Identifier: Apache-2.0
#include "daso/record/report.h"

#include <fmt/format.h>

#include <map>
#include <span>
#include <string_view>

#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/record/report_sections.h"
#include "daso/record/report_text.h"

namespace daso {

// report_page.html; the build makes a source of it.
extern const char kReportPage[];  // NOLINT(modernize-avoid-c-arrays): as long as the file

namespace {

namespace fs = std::filesystem;

// The frame with each {{name}} replaced. What is put in is not looked at again, so the text of a
// run may hold such marks.
std::string filled(std::string_view frame, const std::map<std::string_view, std::string>& parts) {
  std::string page;
  for (std::size_t mark = frame.find("{{"); mark != std::string_view::npos;
       mark = frame.find("{{")) {
    const std::size_t end = frame.find("}}", mark);
    DASO_ASSERT(end != std::string_view::npos);
    page += frame.substr(0, mark);
    page += parts.at(frame.substr(mark + 2, end - mark - 2));
    frame.remove_prefix(end + 2);
  }
  return page += frame;
}

// Every seed is a run.
std::string title_of(const ReportedRuns& runs) {
  const std::size_t seeds = runs.front().folders.size();
  if (runs.size() == 1 && seeds == 1) return runs.front().label;
  if (runs.size() == 1) return fmt::format("{}, {} seeds", runs.front().label, seeds);
  std::size_t all = 0;
  bool alike = true;
  for (const ReportedRun& run : runs) {
    all += run.folders.size();
    alike = alike && run.folders.size() == seeds;
  }
  if (all == runs.size()) return fmt::format("{} runs", all);
  return alike ? fmt::format("{} runs: {} candidates with {} seeds each", all, runs.size(), seeds)
               : fmt::format("{} runs of {} candidates", all, runs.size());
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

}  // namespace

std::string report_page(const std::vector<LabelledRun>& runs, const fs::path& folder) {
  const ReportedRuns all = read_runs(runs);
  const fs::path usual = runs.size() == 1 ? runs.front().folder : fs::path(".");
  return filled(kReportPage, {{"title", html_text(title_of(all))},
                              {"subject", subject_line(all)},
                              {"notes", notes_section(all)},
                              {"headline", headline_section(all)},
                              {"members", members_section(all)},
                              {"budget", budget_section(all)},
                              {"late", late_section(all)},
                              {"configuration", configuration_section(all)},
                              {"files", files_section(all, folder.empty() ? usual : folder)},
                              {"runs", curve_data(all)}});
}

void write_report(const std::vector<LabelledRun>& runs, const fs::path& to) {
  const std::string page = report_page(runs, folder_of(to));
  write_file(to, page);
}

}  // namespace daso
