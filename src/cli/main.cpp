// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

#include "cli/command.h"
#include "cli/usage.h"
#include "daso/base/error.h"
#include "daso/base/standard_streams.h"
#include "daso/base/utf8.h"
#include "daso/base/version.h"
#include "daso/comm/message_of.h"
#include "daso/comm/no_reverse_lookup.h"
#include "daso/comm/rank_main.h"

namespace {

using daso::cli::Command;
using daso::cli::Invocation;

Invocation invocation_of(int argc, char** argv) {
  Invocation invocation;
  invocation.arguments.assign(argv + 1, argv + argc);
  const auto mark = std::find(invocation.arguments.begin(), invocation.arguments.end(), "--");
  if (mark != invocation.arguments.end()) {
    invocation.program.assign(mark + 1, invocation.arguments.end());
  }
  return invocation;
}

std::vector<Command> add_commands(CLI::App& app) {
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", std::string("daso ") + daso::kVersion);
  app.require_subcommand(0, 1);
  app.footer(
      "From the root of the source tree the script ./daso builds what changed, runs this program,\n"
      "and has five verbs of its own:\n"
      "  ./daso build [PRESET]        build all, the tests too: release, dev, asan or tsan\n"
      "  ./daso test [--all]          run the tests; --all: slow ones and sanitizers as well\n"
      "  ./daso install --prefix DIR  put program, library and headers into a folder\n"
      "  ./daso wheel                 build the Python package\n"
      "  ./daso lint [--all]          look at the changed files, or at all\n"
      "Exit codes: 0 all went well, 1 a bug, a failed check or lost output, 2 something to mend,\n"
      "3 a rank was lost, 75 told to stop and can go on. See docs/errors.md.");
  CLI::App* bench =
      app.add_subcommand("bench", "Measure: comm, overlap, merge, step, train, loader");
  bench->require_subcommand(0, 1);
  bench->footer("docs/measuring.md defines every number.");
  CLI::App* make = app.add_subcommand("make", "Write data to try things on: images, text");
  make->require_subcommand(0, 1);
  make->footer("See docs/data.md.");  // also of its commands
  return {daso::cli::add_train(app),
          daso::cli::add_eval(app),
          daso::cli::add_export(app),
          daso::cli::add_predict(app),
          daso::cli::add_generate(app),
          daso::cli::add_compare(app),
          daso::cli::add_report(app),
          daso::cli::add_top(app),
          daso::cli::add_run(app),
          daso::cli::add_witness(app),
          daso::cli::add_doctor(app),
          daso::cli::add_schedule(app),
          daso::cli::add_make_images(*make),
          daso::cli::add_make_text(*make),
          daso::cli::add_bench_comm(*bench),
          daso::cli::add_bench_overlap(*bench),
          daso::cli::add_bench_merge(*bench),
          daso::cli::add_bench_step(*bench),
          daso::cli::add_bench_train(*bench),
          daso::cli::add_bench_loader(*bench),
          daso::cli::add_verify(app)};
}

// An empty one is that of a shell's variable which is not set. Taken for none, it would mean
// another run, or a new folder.
void require_names(const std::vector<std::string>& words) {
  for (const std::string flag : {"--config", "--init", "--out", "--resume"}) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool follows = words[i] == flag && i + 1 < words.size() && words[i + 1].empty();
      daso::require(!follows && words[i] != flag + "=",
                    "{} has an empty name behind it; give one, or leave {} out", flag, flag);
    }
  }
}

// What stands after -- is not ours to understand.
void parse(CLI::App& app, const Invocation& invocation) {
  std::vector<std::string> words = invocation.arguments;
  words.erase(std::find(words.begin(), words.end(), "--"), words.end());
  for (const std::string& word : words) {
    daso::require(
        daso::is_utf8(word),
        "'{}' is not in UTF-8, as all text on the command line must be; a file of such a name can "
        "be reached by a link",
        daso::printable(word));
  }
  require_names(words);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the end
  app.parse(std::move(words));
}

int refuse(const CLI::App& app, const std::string& reason) {
  const std::string name = daso::cli::full_name(daso::cli::reached(app));
  fmt::print(stderr, "daso: {}\nsee {} --help\n", reason, name);
  return daso::kExitConfig;
}

bool marked(const Invocation& invocation) {
  const std::vector<std::string>& words = invocation.arguments;
  return std::find(words.begin(), words.end(), "--") != words.end();
}

int act(const CLI::App& app, const std::vector<Command>& commands, const Invocation& invocation) {
  const CLI::App& chosen = daso::cli::reached(app);
  if (&chosen == &app && invocation.arguments.empty()) {
    fmt::print("{}", app.help());
    return daso::kExitOk;
  }
  const auto command = std::find_if(commands.begin(), commands.end(),
                                    [&](const Command& one) { return one.parser == &chosen; });
  if (command == commands.end()) return refuse(app, daso::cli::missing_command(chosen));
  if (marked(invocation) && chosen.get_name() != "run")
    return refuse(app, "only 'daso run' takes --");
  return command->act(invocation);
}

int run(int argc, char** argv) {
  const Invocation invocation = invocation_of(argc, argv);
  CLI::App app("Hierarchical, asynchronous data parallelism for LibTorch", "daso");
  const std::vector<Command> commands = add_commands(app);
  try {
    parse(app, invocation);
    return act(app, commands, invocation);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return daso::kExitOk;
  } catch (const CLI::CallForVersion&) {
    fmt::print("daso {}\n", daso::kVersion);
    return daso::kExitOk;
  } catch (const CLI::ArgumentMismatch& error) {
    return refuse(app, fmt::format("{}; a flag is given once, with one value", error.what()));
  } catch (const CLI::ParseError& error) {
    const std::string strange = daso::cli::misunderstood(app);
    return refuse(app, strange.empty() ? error.what() : strange);
  } catch (const daso::ConfigError& error) {
    return refuse(app, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  daso::hold_standard_streams();
  try {
    daso::quiet_libtorch();
    return daso::checked_output(run(argc, argv));
  } catch (const std::exception& error) {
    // A print that failed says less than we know.
    if (std::ferror(stdout) != 0) return daso::checked_output(daso::kExitBug);
    std::fprintf(stderr, "daso: %s\n", daso::message_of(error).c_str());
    return daso::exit_code_of(error);
  }
}
