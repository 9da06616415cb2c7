// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/flags.h"
#include "daso/base/error.h"
#include "daso/launch/hosts.h"

namespace daso::cli {
namespace {

struct RunCommand {
  LaunchFlags launch;
  SurvivalFlags survival;
  std::string replay;  // the run to do again; empty: none
  std::string out;     // of the replay
};

// The ranks are those of the flags; a run of another number is refused where it meets its past.
void prepare_replay(const CLI::App& app, RunCommand& command) {
  require(!command.out.empty(), "--replay needs --out FOLDER, where it writes");
  require(app.count("--on-failure") == 0, "--replay has no faults: leave --on-failure out");
  if (app.count("--backend") == 0) command.launch.backend = "tcp";
  require(command.launch.backend == "tcp",
          "--replay needs --backend tcp: backend {} cannot make connections anew for each view",
          command.launch.backend);
}

int act(const CLI::App& app, RunCommand& command, const Invocation& invocation) {
  require(!invocation.program.empty(),
          "run needs a program after --, like: daso run --nodes 2 -- PROGRAM ARGS");
  LaunchFlags& flags = command.launch;
  if (!command.replay.empty()) prepare_replay(app, command);
  require(command.out.empty() || !command.replay.empty(),
          "--out is for --replay; a program's own folder stands after --");
  take_slurm_nodes(command.survival, flags);
  flags.survival = survival_of(command.survival, flags);
  if (flags.survival) flags.time_to_save = kTimeToSave;
  require(!flags.survival || !flags.keep_survivors,
          "--keep-survivors is for programs that see to themselves, and --on-failure continue for "
          "those that ask their launcher: leave one of them out");
  if (starts_hosts(flags)) return launch_on_hosts(flags, kOneRank, invocation.arguments);
  LaunchOptions options = launch_options(flags, kOneRank);
  options.replay = command.replay;
  options.replay_out = command.out;
  options.command = invocation.program;
  return launch(options);
}

}  // namespace

Command add_run(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("run", "Start a program as the ranks of a world");
  const auto command = std::make_shared<RunCommand>();
  add_launch_flags(*app, command->launch, kOneRank);
  app->add_flag("--keep-survivors", command->launch.keep_survivors,
                "Let the other ranks go on when one is lost")
      ->group("Ranks");
  add_survival_flags(*app, command->survival, command->launch);
  app->add_option(
         "--replay", command->replay,
         "Do a run of daso.Run again whose nodes came and went, without faults; it must end "
         "with the same bytes")
      ->type_name("RUN");
  app->add_option("--out", command->out, "Where a replay writes")->type_name("FOLDER");
  app->footer(
      "The program and its arguments stand after --:\n"
      "  daso run --nodes 2 --ranks-per-node 2 -- PROGRAM ARGS\n"
      "The ranks are told who they are by torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK,\n"
      "MASTER_ADDR and MASTER_PORT. --backend is for programs that use this library.\n"
      "--on-failure continue is for Python's daso.Run and for daso::train_main(): see\n"
      "docs/survival.md.");
  return {app,
          [app, command](const Invocation& invocation) { return act(*app, *command, invocation); }};
}

}  // namespace daso::cli
