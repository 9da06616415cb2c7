// SPDX-License-Identifier: Apache-2.0
#include "daso/run/predict.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/flags.h"
#include "daso/base/error.h"
#include "daso/data/picture_input.h"

namespace daso::cli {
namespace {

constexpr int kTop = 5;

struct PredictOptions {
  std::string run;
  std::vector<std::string> images;
  int top = kTop;
  Choice choice;
  bool json = false;
};

std::string line_of(const std::vector<Guess>& guesses) {
  std::string line;
  for (const Guess& guess : guesses) {
    line +=
        fmt::format("{}{} {:.2f} %", line.empty() ? "" : ", ", guess.name, 100 * guess.probability);
  }
  return line;
}

int act(const PredictOptions& options) {
  const std::vector<std::filesystem::path> files = image_files(options.images);
  const SavedModel saved = load_saved(options.run, options.choice);
  require(saved.input.shape.kind == InputKind::kImage,
          "{} is a model of texts: daso generate is for those", options.run);
  const auto network = network_of(saved);
  nlohmann::ordered_json report = nlohmann::json::array();
  for (const std::filesystem::path& file : files) {
    const std::vector<Guess> guesses = classes_of(*network, saved.input, file, options.top);
    if (!options.json) {
      fmt::print("{}: {}\n", file.string(), line_of(guesses));
      continue;
    }
    nlohmann::ordered_json classes = nlohmann::json::array();
    for (const Guess& guess : guesses) {
      classes.push_back(
          {{"class", guess.number}, {"name", guess.name}, {"probability", guess.probability}});
    }
    report.push_back({{"image", file.string()}, {"classes", classes}});
  }
  if (options.json) {
    fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  return kExitOk;
}

}  // namespace

Command add_predict(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("predict", "Tell what images show, by a saved model");
  const auto options = std::make_shared<PredictOptions>();
  app->add_option("run", options->run, "A run's folder, a checkpoint's, or an exported file")
      ->required();
  app->add_option("images", options->images, "JPEG or PNG files, or folders of them")->required();
  Flags(*app)
      .count("--top", "Classes of each image, the most likely first", options->top, 1)
      ->default_str(std::to_string(kTop));
  app->add_flag("--best", options->choice.best, "The model of the best epoch (--keep-best)");
  app->add_flag("--ema", options->choice.averaged, "With averaged parameters (--ema)");
  app->add_flag("--json", options->json, "Print one JSON list");
  app->footer("See docs/using.md.");
  return {app, [options](const Invocation&) { return act(*options); }};
}

}  // namespace daso::cli
