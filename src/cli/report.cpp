// SPDX-License-Identifier: Apache-2.0
#include "daso/record/report.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"

namespace daso::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReportFile = "report.html";

struct ReportOptions {
  std::vector<std::string> runs;
  std::string to;
};

int act(const ReportOptions& options) {
  const std::vector<LabelledRun> runs(options.runs.begin(), options.runs.end());
  const fs::path usual =
      runs.size() == 1 ? runs.front().folder / kReportFile : fs::path(kReportFile);
  const fs::path to = options.to.empty() ? usual : fs::path(options.to);
  require(!is_folder(to), "--to {}: is a folder; name the file to write", to.string());
  write_report(runs, to);
  fmt::print("report of {} in {}\n",
             runs.size() == 1 ? "the run" : fmt::format("{} runs", runs.size()), to.string());
  return kExitOk;
}

}  // namespace

Command add_report(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("report", "Write a page about a run, or about several side by side");
  const auto options = std::make_shared<ReportOptions>();
  app->add_option("run", options->runs, "Folders of runs")->required()->type_name("RUN");
  app->add_option("--to", options->to,
                  "The file to write; without it report.html, in the run's folder or for several "
                  "runs in the current one")
      ->type_name("FILE");
  app->footer("See docs/report.md.");
  return {app, [options](const Invocation&) { return act(*options); }};
}

}  // namespace daso::cli
