// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

// report.html: one run, or several side by side, as a page that needs nothing but itself. Its
// figures, bars and tables are text in it; its curves are drawn by a script from a block of JSON.
// report_page.html is its frame, docs/report.md says what it shows.
namespace daso {

// A run's folder. Runs of one label are one thing with several seeds, drawn as a mean with a band.
struct LabelledRun {
  // NOLINTNEXTLINE(google-explicit-constructor): a folder alone will do.
  LabelledRun(std::filesystem::path its_folder, std::string its_label = "")
      : folder(std::move(its_folder)), label(std::move(its_label)) {}

  std::filesystem::path folder;
  std::string label;  // empty: the report finds one, and runs that differ by their seeds alone
};

// The page of these runs. It links to their files as seen from `folder`, where it will lie; empty
// means the run's own folder for one run, the current one for several. Throws ConfigError if a
// folder holds neither metrics.jsonl nor summary.json.
std::string report_page(const std::vector<LabelledRun>& runs,
                        const std::filesystem::path& folder = {});

// Writes it: a reader of `to` finds a whole page or what was there before.
void write_report(const std::vector<LabelledRun>& runs, const std::filesystem::path& to);

}  // namespace daso
