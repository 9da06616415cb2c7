// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/command.h"
#include "cli/flags.h"
#include "daso/base/error.h"
#include "daso/run/predict.h"

namespace daso::cli {
namespace {

struct GenerateCommand {
  std::string run;
  Choice choice;
  GenerateOptions options;
};

double parse_temperature(const std::string& flag, const std::string& text) {
  constexpr double kHottest = 1000;  // all tokens are then equally likely
  const double value = parse_number(flag, text);
  require(value >= 0 && value <= kHottest, "{} takes a number of 0 ... {}, got '{}'", flag,
          kHottest, text);
  return value;
}

// At once: people watch a text grow.
void show(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) throw Error("standard output cannot be written");
}

int act(const GenerateCommand& command) {
  const SavedModel saved = load_saved(command.run, command.choice);
  require(saved.input.shape.kind == InputKind::kText,
          "{} is a model of images: daso predict is for those", command.run);
  const auto network = network_of(saved);
  generate(*network, saved.input, command.options, show);
  show("\n");
  return kExitOk;
}

}  // namespace

Command add_generate(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("generate", "Go on with a text, by a saved model");
  const auto command = std::make_shared<GenerateCommand>();
  GenerateOptions& options = command->options;
  app->add_option("run", command->run, "A run's folder, a checkpoint's, or an exported file")
      ->required();
  app->add_option("--prompt", options.prompt, "The text to go on with")->required();
  Flags flags(*app);
  flags.count("--tokens", "To add: characters, or bytes", options.tokens, 1)
      ->default_str(std::to_string(options.tokens));
  flags
      .parsed("--temperature", "0: always the most likely token; more: more surprising ones",
              options.temperature, parse_temperature)
      ->default_str("1");
  flags.count("--top-k", "Draw from so many of the most likely tokens (all)", options.top_k, 1);
  flags.parsed("--seed", "Of what is drawn", options.seed, parse_seed)->default_str("1");
  app->add_flag("--best", command->choice.best, "The model of the best epoch (--keep-best)");
  app->add_flag("--ema", command->choice.averaged, "With averaged parameters (--ema)");
  app->footer("See docs/using.md.");
  return {app, [command](const Invocation&) { return act(*command); }};
}

}  // namespace daso::cli
