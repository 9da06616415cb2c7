// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/flags.h"
#include "daso/base/error.h"
#include "daso/launch/hosts.h"

namespace daso::cli {
namespace {

int act(const LaunchFlags& flags, const Invocation& invocation) {
  require(!invocation.program.empty(),
          "run needs a program after --, like: daso run --nodes 2 -- PROGRAM ARGS");
  if (starts_hosts(flags)) return launch_on_hosts(flags, kOneRank, invocation.arguments);
  LaunchOptions options = launch_options(flags, kOneRank);
  options.command = invocation.program;
  return launch(options);
}

}  // namespace

Command add_run(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("run", "Start a program as the ranks of a world");
  const auto flags = std::make_shared<LaunchFlags>();
  add_launch_flags(*app, *flags, kOneRank);
  app->add_flag("--keep-survivors", flags->keep_survivors,
                "Let the other ranks go on when one is lost")
      ->group("Ranks");
  app->footer(
      "The program and its arguments stand after --:\n"
      "  daso run --nodes 2 --ranks-per-node 2 -- PROGRAM ARGS\n"
      "The ranks are told who they are by torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK,\n"
      "MASTER_ADDR and MASTER_PORT.");
  return {app, [flags](const Invocation& invocation) { return act(*flags, invocation); }};
}

}  // namespace daso::cli
