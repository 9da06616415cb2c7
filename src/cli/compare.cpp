// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/compare_runs.h"
#include "cli/config_file.h"
#include "cli/flags.h"
#include "cli/run_folder.h"
#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/record/report.h"
#include "daso/tensor/bf16.h"

namespace daso::cli {
namespace {

constexpr Shape kShape{.nodes = 2, .ranks_per_node = 2};

struct CompareCommand {
  LaunchFlags launch;
  CompareOptions compare;
  std::string strategies = "sync,local,daso";
  std::string config;
  bool json = false;
};

int compare(World& world, const CompareCommand& command) {
  CompareOptions options = command.compare;
  options.job.out = agreed_folder(world, options.job.out);
  const std::vector<CompareRow> rows = compare_runs(world, options, command.json);
  if (world.rank() != 0) return kExitOk;
  const std::filesystem::path& out = options.job.out;
  write_file(out / "compare.json", json_text(rows));
  std::vector<std::filesystem::path> runs;
  for (const CompareRow& row : rows) runs.push_back(row.runs.front());
  write_report(runs, out / "report.html");
  if (command.json) {
    fmt::print("{}", json_text(rows));
  } else {
    fmt::print("{}report of all curves: {}\n", table_text(rows, options),
               (out / "report.html").string());
  }
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
  return on_ranks({"compare", command.launch, kShape, configuration}, invocation.arguments,
                  [&](World& world) { return compare(world, command); });
}

}  // namespace

Command add_compare(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("compare", "Train with several strategies, side by side");
  const auto command = std::make_shared<CompareCommand>();
  app->add_option("--strategies", command->strategies,
                  "Which, with commas between; daso:paper is daso with --preset paper")
      ->type_name("NAME,...")
      ->capture_default_str();
  Flags flags(*app);
  flags.count("--seeds", "Runs of each, with seeds from --seed on", command->compare.seeds, 1)
      ->default_str("1");
  flags.parsed("--target-accuracy", "Also tell the seconds to it, 0 ... 1",
               command->compare.target_accuracy, parse_number);
  app->add_option("--config", command->config, "TOML file with flags by name; flags given win");
  add_job_flags(*app, command->compare.job);
  app->add_flag("--json", command->json, "Print the rows alone, as JSON");
  add_launch_flags(*app, command->launch, kShape);
  add_world_flags(*app, command->launch);
  app->footer("docs/comparing.md tells more.");
  return {app,
          [app, command](const Invocation& invocation) { return act(*app, *command, invocation); }};
}

}  // namespace daso::cli
