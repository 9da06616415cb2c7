// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/values.h"
#include "daso/run/model_metadata.h"
#include "daso/run/saved_model.h"
#include "daso/tensor/pytorch_file.h"
#include "daso/tensor/safetensors.h"

namespace daso::cli {
namespace {

struct ExportOptions {
  std::string run;
  std::string format;  // empty: as the file's name says
  std::string to;
  Choice choice;
};

constexpr const char* kSafetensors = "safetensors";
constexpr const char* kPytorch = "pytorch";

// What a file of this name is taken for by those who find it; empty: by nobody.
std::string format_of(const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  if (ending == ".pt" || ending == ".pth") return kPytorch;
  return ending == ".safetensors" ? kSafetensors : "";
}

int act(const ExportOptions& options) {
  require(!is_folder(options.to), "--to {}: is a folder; name the file to write", options.to);
  const std::string named = format_of(options.to);
  require(named.empty() || options.format.empty() || named == options.format,
          "--to {} names a file of format {}, and --format is {}: change one of them", options.to,
          named, options.format);
  const bool pytorch = named == kPytorch || options.format == kPytorch;
  const SavedModel saved = load_saved(options.run, options.choice);
  if (pytorch) {
    write_pytorch(options.to, saved.tensors);
  } else {
    write_tensors(options.to, saved.tensors, metadata_of(saved));
  }
  fmt::print("{} tensors of a {} in {}; in Python:\n\n{}", saved.tensors.size(), saved.name,
             options.to, python_lines(options.to, pytorch));
  return kExitOk;
}

}  // namespace

Command add_export(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("export", "Write a saved model for other programs");
  const auto options = std::make_shared<ExportOptions>();
  app->add_option("run", options->run, "A run's folder, a checkpoint's, or an exported file")
      ->required();
  app->add_option_function<std::string>(
         "--format",
         [options](const std::string& text) {
           options->format = parse_choice("--format", text, {kSafetensors, kPytorch});
         },
         "safetensors, pytorch (as --to ends: .pt or .pth is pytorch)")
      ->type_name("NAME");
  app->add_option("--to", options->to, "The file to write")->required();
  app->add_flag("--best", options->choice.best, "The model of the best epoch (--keep-best)");
  app->add_flag("--ema", options->choice.averaged, "With averaged parameters (--ema)");
  app->footer("See docs/using.md.");
  return {app, [options](const Invocation&) { return act(*options); }};
}

}  // namespace daso::cli
