// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/values.h"
#include "daso/run/saved_model.h"
#include "daso/tensor/pytorch_file.h"
#include "daso/tensor/safetensors.h"

namespace daso::cli {
namespace {

struct ExportOptions {
  std::string run;
  std::string format = "safetensors";
  std::string to;
  Choice choice;
};

int act(const ExportOptions& options) {
  require(!is_folder(options.to), "--to {}: is a folder; name the file to write", options.to);
  const SavedModel saved = load_saved(options.run, options.choice);
  if (options.format == "pytorch") {
    write_pytorch(options.to, saved.tensors);
  } else {
    write_tensors(options.to, saved.tensors, {{"format", "pt"}});
  }
  fmt::print("{} tensors of a {} in {}\n", saved.tensors.size(), saved.name, options.to);
  return kExitOk;
}

}  // namespace

Command add_export(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("export", "Write a saved model for other programs");
  const auto options = std::make_shared<ExportOptions>();
  app->add_option("run", options->run, "A run's folder or a checkpoint's")->required();
  app->add_option_function<std::string>(
         "--format",
         [options](const std::string& text) {
           options->format = parse_choice("--format", text, {"safetensors", "pytorch"});
         },
         "safetensors, pytorch")
      ->type_name("NAME")
      ->default_str(options->format);
  app->add_option("--to", options->to, "The file to write")->required();
  app->add_flag("--best", options->choice.best, "The model of the best epoch (--keep-best)");
  app->add_flag("--ema", options->choice.averaged, "With averaged parameters (--ema)");
  app->footer("docs/training.md tells more.");
  return {app, [options](const Invocation&) { return act(*options); }};
}

}  // namespace daso::cli
