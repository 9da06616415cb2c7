// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/statistics.h"
#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/flags.h"
#include "cli/run_folder.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/data/loader.h"
#include "daso/launch/ranks.h"
#include "daso/nets/network.h"
#include "daso/run/device_feed.h"
#include "daso/run/loss.h"
#include "daso/run/rank_device.h"
#include "daso/run/saved_model.h"

namespace daso::cli {
namespace {

using namespace bench;

constexpr Shape kEvalShape{.nodes = 1, .ranks_per_node = 2};
constexpr int kEvalBatch = 256;

struct EvalOptions {
  LaunchFlags launch;
  std::string run;
  std::string data;  // empty: the run's own
  Choice choice;
  bool skip_bad_images = false;
  int loader_threads = 1;
  DeviceChoice device;
  bool json = false;
};

// What the run was trained on.
std::string own_data(const std::string& run) {
  require(!is_plain_file(run),
          "{} is a file, which does not say on what it was trained: give --data", run);
  require(is_folder(run), "there is no folder '{}'", run);
  for (const std::filesystem::path& folder : {std::filesystem::path(run), run_of(run)}) {
    if (const auto data = configured((folder / kConfigFile).string(), "data")) return *data;
  }
  throw ConfigError(fmt::format("{} does not say on what it was trained: give --data", run));
}

// Refuses data that is not such as the model of the run was trained on.
void check_fit(const std::string& run, const ModelInput& input, const std::string& name,
               const Dataset& data) {
  require(data.shape() == input.shape, "--data {} has inputs of {}, the model takes {}", name,
          text_of(data.shape()), text_of(input.shape));
  if (input.shape.kind == InputKind::kText) {
    const std::vector<std::int64_t> vocabulary = as_text(data).vocabulary();
    require(vocabulary == input.vocabulary,
            "--data {} has {} different tokens, the model was trained with {} others: a text must "
            "have the same vocabulary; tokens=bytes fits every text",
            name, data.classes(), input.classes);
  } else {
    require_same_classes(run, input, name, as_images(data).class_names());
  }
  require(data.classes() <= input.classes, "--data {} has {} classes, the model tells {} apart",
          name, data.classes(), input.classes);
}

// Files that could not be read, of all ranks together; none where such a file ends the evaluation.
std::optional<std::int64_t> bad_images_of(World& world, const EvalOptions& options,
                                          const Dataset& data) {
  if (!options.skip_bad_images) return std::nullopt;
  const auto own = static_cast<double>(data.bad_files());
  return static_cast<std::int64_t>(sum_of(world.everyone(), own, world.limit()));
}

// A model that has diverged has no loss. All ranks throw alike.
void require_finite(const Score& score, const SavedModel& saved, const EvalOptions& options) {
  if (std::isfinite(score.loss)) return;
  std::string cause = "all values of the model are finite, but what it computes of them is not";
  for (const auto& [name, tensor] : saved.tensors) {
    if (!tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>()) continue;
    cause = fmt::format("tensor '{}' of the model has values that are not finite", name);
    break;
  }
  throw Error(
      fmt::format("{} on {}: the loss is {}: {}", options.run, options.data, score.loss, cause));
}

// Of texts the classes are tokens, and nobody asks for each.
void print_json(const EvalOptions& options, const SavedModel& saved, const Score& score,
                std::int64_t examples, std::optional<std::int64_t> bad_images) {
  const bool text = saved.input.shape.kind == InputKind::kText;
  nlohmann::ordered_json report = {{"model", saved.name},
                                   {"data", options.data},
                                   {"examples", examples},
                                   {"test_loss", score.loss},
                                   {"test_accuracy", score.accuracy}};
  if (text) report["perplexity"] = perplexity_of(score.loss);
  if (score.top5) report["top5"] = *score.top5;
  if (bad_images) report["bad_images"] = *bad_images;
  for (std::size_t i = 0; i < score.classes.size(); ++i) {
    const auto [all, right] = score.classes[i];
    nlohmann::ordered_json one = {{"class", i},
                                  {"name", class_name(saved.input, i)},
                                  {"examples", all},
                                  {"accuracy", nullptr}};
    if (all > 0) one["accuracy"] = static_cast<double>(right) / static_cast<double>(all);
    report["classes"].push_back(one);
  }
  fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const EvalOptions& options, const SavedModel& saved, const Score& score,
                std::int64_t examples, std::optional<std::int64_t> bad_images) {
  const bool text = saved.input.shape.kind == InputKind::kText;
  fmt::print("{} on {} examples of {}: loss {:.4f}, {}accuracy {:.4f}{}{}\n", saved.name, examples,
             options.data, score.loss,
             text ? fmt::format("perplexity {:.4g}, ", perplexity_of(score.loss)) : "",
             score.accuracy, score.top5 ? fmt::format(", top-5 {:.4f}", *score.top5) : "",
             bad_images ? fmt::format(", bad images {}", *bad_images) : "");
  for (std::size_t i = 0; i < score.classes.size(); ++i) {
    const auto [all, right] = score.classes[i];
    if (all == 0) continue;
    fmt::print("  {}: {:.4f} ({} of {})\n", class_name(saved.input, i),
               static_cast<double>(right) / static_cast<double>(all), right, all);
  }
}

int evaluate_on(World& world, const EvalOptions& options) {
  const at::Device device = rank_device(world, options.device).device;
  const SavedModel saved = load_saved(options.run, options.choice);
  const auto network = network_of(saved);
  network->to(device);
  const Datasets data = open_data(options.data, {.skip_bad_images = options.skip_bad_images});
  check_fit(options.run, saved.input, options.data, *data.test);
  EvaluationLoader own_part(data.test, {.batch_size = kEvalBatch,
                                        .rank = world.rank(),
                                        .ranks = world.size(),
                                        .threads = options.loader_threads,
                                        .normalisation = saved.input.normalisation,
                                        .pinned = !device.is_cpu(),
                                        .raw = !device.is_cpu()});
  const int classes = saved.input.shape.kind == InputKind::kText ? 0 : saved.input.classes;
  DeviceFeed feed(world, device);
  const Score score = evaluate(*network, feed, own_part, world.everyone(), world, classes);
  require_finite(score, saved, options);
  const std::optional<std::int64_t> bad_images = bad_images_of(world, options, *data.test);
  if (world.rank() != 0) return kExitOk;
  const auto print = options.json ? print_json : print_text;
  print(options, saved, score, data.test->size(), bad_images);
  return kExitOk;
}

}  // namespace

Command add_eval(CLI::App& parent) {
  CLI::App* app =
      parent.add_subcommand("eval", "Loss and accuracy of a saved model, in all and by class");
  const auto options = std::make_shared<EvalOptions>();
  app->add_option("run", options->run, "A run's folder, a checkpoint's, or an exported file")
      ->required();
  app->add_option("--data", options->data, "As of daso train; its test part (what it trained on)");
  app->add_flag("--best", options->choice.best, "The model of the best epoch (--keep-best)");
  app->add_flag("--ema", options->choice.averaged, "With averaged parameters (--ema)");
  app->add_flag("--skip-bad-images", options->skip_bad_images,
                "Of images:DIR: as of daso train; says how many");
  Flags(*app)
      .count("--loader-threads", "That prepare a rank's batches, up to 1024",
             options->loader_threads, 1, kMostThreads)
      ->default_str(std::to_string(options->loader_threads));
  app->add_option_function<std::string>(
         "--device", [options](const std::string& text) { options->device = parse_device(text); },
         "cpu, cuda, cuda:N, auto")
      ->default_str("auto");
  app->add_flag("--json", options->json, "Print one JSON object");
  add_launch_flags(*app, options->launch, kEvalShape);
  add_world_flags(*app, options->launch);
  app->footer("See docs/using.md.");
  return {app, [options](const Invocation& invocation) {
            if (options->data.empty()) options->data = own_data(options->run);
            return on_ranks({"eval",
                             options->launch,
                             kEvalShape,
                             {{"run", options->run},
                              {"data", options->data},
                              {"best", options->choice.best ? "true" : "false"},
                              {"ema", options->choice.averaged ? "true" : "false"},
                              {"skip-bad-images", options->skip_bad_images ? "true" : "false"}}},
                            invocation.arguments,
                            [&](World& world) { return evaluate_on(world, *options); });
          }};
}

}  // namespace daso::cli
