// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "cli/command.h"
#include "cli/compare_runs.h"
#include "cli/config_file.h"
#include "cli/flags.h"
#include "cli/run_folder.h"
#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/paths.h"
#include "daso/record/report.h"
#include "daso/tensor/bf16.h"

namespace daso::cli {
namespace {

struct CompareCommand {
  LaunchFlags launch;
  CompareOptions compare;
  std::string strategies = "sync,local,daso";
  std::string config;
  std::string csv;  // a file; empty: none
  bool json = false;
};

// Before anything is trained: afterwards it would be too late to learn that it cannot be written.
void check_csv(const std::filesystem::path& file) {
  if (file.empty()) return;
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  require(!is_folder(file), "--csv {}: is a folder; name the file to write", file.string());
  require(is_folder(folder), "--csv {}: there is no folder '{}'; make it, or name another file",
          file.string(), folder.string());
}

// All that is known, where readers look for it.
void write_rows(const std::vector<CompareRow>& rows, const CompareCommand& command,
                const std::filesystem::path& out) {
  write_file(out / "compare.json", json_text(rows));
  if (!command.csv.empty()) write_file(command.csv, csv_text(rows));
  std::vector<LabelledRun> runs;
  for (const CompareRow& row : rows) {
    for (const std::filesystem::path& run : row.runs) runs.push_back({run, row.label});
  }
  write_report(runs, out / "report.html");
}

int compare(World& world, const CompareCommand& command) {
  if (world.rank() == 0) check_csv(command.csv);
  CompareOptions options = command.compare;
  options.job.out = agreed_folder(world, options.job.out);
  const std::filesystem::path& out = options.job.out;
  compare_runs(world, options, command.json, [&](const std::vector<CompareRow>& rows, int seeds) {
    write_rows(rows, command, out);
    const bool last = seeds == options.seeds;
    if (command.json) {
      if (last) fmt::print("{}", json_text(rows));
      return;
    }
    fmt::print("{}{}", last ? "" : fmt::format("after {} of {} seeds:\n", seeds, options.seeds),
               table_text(rows, options.target_accuracy.has_value()));
    if (last) fmt::print("report of all curves: {}\n", (out / "report.html").string());
    std::fflush(stdout);
  });
  return kExitOk;
}

int act(CLI::App& app, CompareCommand& command, const Invocation& invocation) {
  take_threads(app, command.compare.job, this_environment());
  if (!command.config.empty()) apply_config_file(app, command.config);
  command.compare.candidates = parse_candidates("--strategies", command.strategies);
  validate(command.compare);
  Configuration configuration = configuration_of(command.compare.job);
  configuration.emplace_back("strategies", command.strategies);
  configuration.emplace_back("seeds", fmt::format("{}", command.compare.seeds));
  if (command.compare.job.precision == Precision::kBf16) cap_instruction_sets();
  return on_ranks({"compare", command.launch, kSmallCluster, configuration}, invocation.arguments,
                  [&](World& world) { return compare(world, command); });
}

}  // namespace

Command add_compare(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("compare", "Train with several strategies, side by side");
  const auto command = std::make_shared<CompareCommand>();
  app->add_option("--strategies", command->strategies,
                  "Which, with commas between, and flags of their own after colons, like "
                  "daso:skip=8:wire=int4; daso:paper is daso with --preset paper")
      ->type_name("NAME,...")
      ->capture_default_str();
  Flags flags(*app);
  flags.count("--seeds", "Runs of each, with seeds from --seed on", command->compare.seeds, 1)
      ->default_str("1");
  flags.parsed("--target-accuracy", "Also tell the seconds to it, 0 ... 1",
               command->compare.target_accuracy, parse_number);
  app->add_option("--config", command->config, "TOML file with flags by name; flags given win");
  add_job_flags(*app, command->compare.job);
  app->add_option("--csv", command->csv, "Also write the rows to this file")->type_name("FILE");
  app->add_flag("--json", command->json, "Print the rows alone, as JSON");
  add_launch_flags(*app, command->launch, kSmallCluster);
  add_world_flags(*app, command->launch);
  app->footer("See docs/comparing.md.");
  return {app,
          [app, command](const Invocation& invocation) { return act(*app, *command, invocation); }};
}

}  // namespace daso::cli
