// SPDX-License-Identifier: Apache-2.0
#include "daso/run/train.h"

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/flags.h"
#include "cli/run_folder.h"
#include "cli/train_flags.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/comm/launcher_line.h"
#include "daso/comm/place.h"
#include "daso/comm/worlds.h"
#include "daso/run/interrupt.h"
#include "daso/run/rank_device.h"
#include "daso/run/views/replay.h"
#include "daso/tensor/bf16.h"

namespace daso::cli {
namespace {

namespace fs = std::filesystem;

struct TrainCommand {
  LaunchFlags launch{.time_to_save = kTimeToSave};
  SurvivalFlags survival;
  Settings options{.trace = StepRange{0, 200}};
  std::string config;
  fs::path replay;  // the run to do again; empty: none
  bool json = false;
};

// A run knows how many ranks it has (config.toml), but not where they were.
std::string how_to_go_on(const LaunchFlags& launch, const fs::path& out) {
  const std::string again = fmt::format("--resume --out {}", shell_word(out.string()));
  if (!launch.hosts.empty()) {
    const std::string hosts = join(launch.hosts, ",");
    const std::string ssh =
        launch.ssh == LaunchFlags{}.ssh ? "" : fmt::format(" --ssh {}", shell_word(launch.ssh));
    return fmt::format("daso train {} --hosts {}{}", again, shell_word(hosts), ssh);
  }
  const std::optional<Place> place = place_from(this_environment());
  const bool ours = !place || place->launcher == Launcher::kDaso;
  const bool at_once = !launch.node_index && launch.cluster.empty();
  if (ours && at_once) return fmt::format("daso train {}", again);
  return fmt::format("the same command, with {}", again);
}

int train(Worlds& worlds, TrainCommand command, Interrupt& interrupt) {
  TrainOptions options{.json = command.json, .interrupt = &interrupt, .replayed = command.replay};
  if (!command.replay.empty()) {
    const Place& place = worlds.options().place;
    worlds.follow(
        std::make_shared<Replay>(command.replay, place.rank, place.rendezvous.value_or(Address{})));
  }
  return daso::train(worlds, options, [&](World& world) {
    command.options.out = agreed_folder(world, command.options.out);
    make_folder("--out", command.options.out);
    const DeviceFound found = rank_device(world, command.options.device);
    require(command.replay.empty() || found.device.is_cpu() || command.options.deterministic,
            "--replay {}: it was computed on GPUs without --deterministic, and such a run has other "
            "last bits each time",
            command.replay.string());
    options.note = found.note;
    options.go_on = how_to_go_on(command.launch, command.options.out);
    return std::make_unique<Run>(command.options, Task{}, found.device);
  });
}

bool counted_elsewhere(const LaunchFlags& launch) {
  return !launch.node_of_rank.empty() || !launch.cluster.empty() ||
         (!launch.rendezvous.empty() && launch.hosts.empty()) ||
         place_from(this_environment()).has_value();
}

// A run goes on with its own configuration; flags win, also over what belongs to what they replace.
// The ranks may be counted by others.
void apply_config_of(const fs::path& run, CLI::App& app, const TrainCommand& command) {
  const Settings& options = command.options;
  if (!is_there(run / kConfigFile)) return;
  const std::string file = (run / kConfigFile).string();
  std::vector<std::string> except = replaced_keys(app, options);
  const bool elsewhere = counted_elsewhere(command.launch);
  // A list counts the nodes itself.
  const bool listed = command.launch.ranks_per_node.size() > 1 || !command.launch.hosts.empty();
  if (elsewhere || listed) except.emplace_back("nodes");
  const bool other_nodes =
      command.launch.nodes &&
      configured(file, "ranks-per-node").value_or("").find(',') != std::string::npos;
  if (elsewhere || other_nodes) except.emplace_back("ranks-per-node");
  apply_config_file(app, file, except);
}

void apply_own_config(CLI::App& app, TrainCommand& command) {
  Settings& options = command.options;
  if (options.out.empty() && options.resume_from.empty()) options.out = newest_run();
  apply_config_of(options.resume_from.empty() ? options.out : run_of(options.resume_from), app,
                  command);
}

// The same settings, ranks and beginning as the run had.
void prepare_replay(CLI::App& app, TrainCommand& command) {
  const fs::path& run = command.replay;
  Settings& options = command.options;
  require(!options.resume, "--replay begins where the run began: leave --resume out");
  require(app.count("--on-failure") == 0, "--replay has no faults: leave --on-failure out");
  require(is_there(run / kConfigFile), "--replay {} is not the folder of a run: it has no {}",
          run.string(), kConfigFile);
  require(!options.out.empty() || !place_from(this_environment()) ||
              place_from(this_environment())->launcher == Launcher::kDaso,
          "--replay needs --out here: every rank has to know the folder");
  options.resume_from = beginning_of(run);
  options.resume = !options.resume_from.empty();
  apply_config_of(run, app, command);
  if (app.count("--backend") == 0) command.launch.backend = "tcp";
  require(command.launch.backend == "tcp",
          "--replay needs --backend tcp: backend {} cannot make connections anew for each view",
          command.launch.backend);
}

void check_resume_from(const fs::path& checkpoint) {
  require(checkpoint.empty() || !is_there(checkpoint / kConfigFile),
          "--resume {} is the folder of a run, not of a checkpoint: --resume --out {} goes on with "
          "its newest",
          checkpoint.string(), checkpoint.string());
}

// Whoever is started by itself, now or later, must find the same folder.
void prepare_survival(TrainCommand& command) {
  const fs::path& out = command.options.out;
  const bool by_hand = command.launch.node_index && command.launch.hosts.empty();
  require(!by_hand || !out.empty() || find(this_environment(), "DASO_LAUNCHER"),
          "launchers that go on when one is lost need --out, the same folder for all of them");
  if (!out.empty()) command.launch.survival->views = (current_folder() / out / "views").string();
}

int act(CLI::App& app, TrainCommand& command, const Invocation& invocation) {
  const Settings& options = command.options;
  check_resume_from(options.resume_from);
  take_threads(app, command.options, this_environment());
  if (!command.replay.empty()) {
    prepare_replay(app, command);
  } else if (!command.config.empty()) {
    apply_config_file(app, command.config, replaced_keys(app, options));
  } else if (options.resume) {
    apply_own_config(app, command);
  }
  validate(options);
  // A rank of a run that goes on when nodes are lost may be started when there are some.
  const bool rejoins = find(this_environment(), kLineVariable).has_value();
  require(rejoins || options.resume || options.out.empty() ||
              !newest_checkpoint(options.out / "checkpoints"),
          "--out {} holds a run already: give another folder, or --resume to go on with it",
          options.out.string());
  if (options.precision == Precision::kBf16) cap_instruction_sets();
  command.launch.stopped_exit = options.stopped_exit;
  SurvivalFlags& survival = command.survival;
  take_slurm_nodes(survival, command.launch);
  if (!survival.asked() && !survival.go_on && command.replay.empty()) {
    survival.go_on = can_go_on(command.launch, kSmallCluster, !options.out.empty());
  }
  command.launch.survival = survival_of(survival, command.launch);
  if (command.launch.survival) prepare_survival(command);
  Interrupt interrupt(rank_interrupt(options.stopped_exit));
  std::vector<std::string> arguments = invocation.arguments;
  const bool one_by_one = command.launch.survival || !command.replay.empty();
  command.launch.one_voice = one_by_one;
  if (one_by_one && options.out.empty() && !place_from(this_environment())) {
    // Ranks that are started later, or know nobody else yet, must find it.
    arguments.insert(arguments.end(),
                     {"--out", (current_folder() / make_default_folder()).string()});
  }
  return on_ranks({"train", command.launch, kSmallCluster, configuration_of(command.options)},
                  arguments, std::function<int(Worlds&)>([&](Worlds& worlds) {
                    return train(worlds, command, interrupt);
                  }));
}

}  // namespace

Command add_train(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("train", "Train a model, from data to checkpoints");
  const auto command = std::make_shared<TrainCommand>();
  app->add_option("--config", command->config, "TOML file with flags by name; flags given win");
  add_train_flags(*app, command->options);
  app->add_option("--replay", command->replay,
                  "Do a run again whose nodes came and went, without faults; it must end with the "
                  "same bytes")
      ->type_name("RUN");
  app->add_flag("--json", command->json, "Print the summary alone, as JSON");
  add_launch_flags(*app, command->launch, kSmallCluster);
  add_world_flags(*app, command->launch);
  add_survival_flags(*app, command->survival, command->launch, "continue where it can");
  app->footer(
      "Ends with 0 when the run is finished, and with 75 when a signal (Ctrl-C, SIGTERM, SIGUSR1)\n"
      "has stopped it and it can go on with --resume. See docs/training.md.");
  return {app,
          [app, command](const Invocation& invocation) { return act(*app, *command, invocation); }};
}

}  // namespace daso::cli
