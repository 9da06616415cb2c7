// SPDX-License-Identifier: Apache-2.0
#include "daso/launch/witness.h"

#include <fmt/format.h>
#include <poll.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/flags.h"
#include "daso/base/environment.h"
#include "daso/base/error.h"
#include "daso/comm/network.h"
#include "daso/launch/signal_inbox.h"

namespace daso::cli {
namespace {

struct WitnessCommand {
  std::string listen;
  std::string job_token;
  std::string file;
};

int act(const WitnessCommand& command) {
  const std::string key = command.job_token.empty()
                              ? find(this_environment(), "DASO_JOB_TOKEN").value_or("")
                              : command.job_token;
  require(!key.empty(),
          "a witness needs the token of its jobs: --job-token-file FILE or DASO_JOB_TOKEN");
  SignalInbox signals(SignalSource::kSystem);
  const Witness witness(
      {.listening = listen_on(parse_address(command.listen)), .key = key, .file = command.file});
  fmt::print(stderr, "daso: a witness listens at {}; Ctrl-C or SIGTERM ends it\n",
             witness.address().text());
  for (std::optional<int> signal; !signal || *signal == SIGCHLD || *signal == SIGTSTP;) {
    pollfd polled{signals.descriptor(), POLLIN, 0};
    ::poll(&polled, 1, -1);
    signal = signals.take();
  }
  return kExitOk;
}

}  // namespace

Command add_witness(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("witness", "Say which half of a run goes on where it falls into two");
  const auto command = std::make_shared<WitnessCommand>();
  app->add_option("--listen", command->listen, "Where launchers ask: daso train --witness")
      ->type_name("HOST:PORT")
      ->required();
  add_token_flags(*app, command->job_token);
  app->add_option("--file", command->file,
                  "Keeps what was said, so that a witness may be started again")
      ->type_name("FILE");
  app->footer("One witness serves any number of runs that know its token. See docs/survival.md.");
  return {app, [command](const Invocation&) { return act(*command); }};
}

}  // namespace daso::cli
