// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

// report.html: one run, or several side by side, as a page that needs nothing but itself. Its
// figures, bars and tables are text in it; its curves are drawn by a script from a block of JSON.
// report_page.html is its frame, docs/report.md says what it shows.
namespace daso {

// The page of these runs. It links to their files as seen from `folder`, where it will lie; empty
// means the run's own folder for one run, the current one for several. Throws ConfigError if a
// folder holds neither metrics.jsonl nor summary.json.
std::string report_page(const std::vector<std::filesystem::path>& runs,
                        const std::filesystem::path& folder = {});

// Writes it: a reader of `to` finds a whole page or what was there before.
void write_report(const std::vector<std::filesystem::path>& runs, const std::filesystem::path& to);

}  // namespace daso
