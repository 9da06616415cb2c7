// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "cli/command.h"
#include "cli/config_file.h"
#include "cli/flags.h"
#include "cli/run_folder.h"
#include "cli/train_flags.h"
#include "cli/train_report.h"
#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/paths.h"
#include "daso/comm/place.h"
#include "daso/run/session.h"
#include "daso/tensor/bf16.h"

namespace daso::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kScreen = 100;  // columns
constexpr Shape kShape{.nodes = 2, .ranks_per_node = 2};
// Up to 16 steps, until all ranks stop at the same one, and a checkpoint. A second signal kills.
constexpr Seconds kTimeToSave{600};

struct TrainCommand {
  LaunchFlags launch{.time_to_save = kTimeToSave};
  Settings options{.trace = StepRange{0, 200}};
  std::string config;
  bool json = false;
};

// A run as it is: what --config takes to do it again.
Configuration resolved_configuration(const World& world, const Session& session) {
  Configuration all = configuration_of(session.settings());
  const Topology& topology = world.topology();
  std::vector<std::size_t> ranks;
  ranks.reserve(static_cast<std::size_t>(topology.nodes()));
  for (int node = 0; node < topology.nodes(); ++node) {
    ranks.push_back(topology.ranks_of(node).size());
  }
  // One number where it is the same for all, so that other --nodes can be given beside it.
  if (topology.smallest_node() == topology.largest_node()) ranks.resize(1);
  all.emplace_back("nodes", fmt::format("{}", topology.nodes()));
  all.emplace_back("ranks-per-node", fmt::format("{}", fmt::join(ranks, ",")));
  return all;
}

void print_start(const World& world, const TrainCommand& command, const Session& session,
                 const Configuration& resolved) {
  const Settings& o = command.options;
  fmt::print("{} on {} with {}: {} ranks on {} nodes, {} epochs\n", o.model, o.data, o.strategy,
             world.size(), world.topology().nodes(), o.epochs);
  std::string line;
  for (const auto& [flag, value] : resolved) {
    const std::string entry = fmt::format("  {} {}", flag, value);
    if (line.size() + entry.size() > kScreen) fmt::print("{}\n", std::exchange(line, ""));
    line += entry;
  }
  fmt::print("{}\n", line);
  fmt::print("output in {}\n", o.out.string());
  if (const auto place = session.resumed()) {
    fmt::print("going on with step {}, epoch {}\n", place->step, place->epoch + 1);
  } else if (o.resume) {
    fmt::print("there is no complete checkpoint in {} yet: this run begins anew\n", o.out.string());
  }
  std::fflush(stdout);
}

void print_end(const Summary& summary, const fs::path& out, bool finished) {
  const std::string folder = out.string();
  const std::string accuracy = summary.epochs > 0
                                   ? fmt::format("accuracy {:.4f}", summary.test_accuracy)
                                   : "not evaluated, no epoch is over";
  fmt::print("{} after {} steps in {:.1f} s; all output is in {}\n", accuracy, summary.steps,
             summary.seconds, folder);
  fmt::print("look at {}, or trace.json in ui.perfetto.dev\n", (out / "report.html").string());
  if (finished) {
    fmt::print(
        "try next: daso eval {}   daso export {} --format safetensors --to model.safetensors\n",
        folder, folder);
  } else {
    fmt::print("go on with: daso train --resume --out {}\n", folder);
  }
}

// The file with which a run goes on. It belongs to the newest checkpoint: flags of an attempt to go
// on that was refused, or diverged, do not stay.
class RunConfiguration {
 public:
  // The session is borrowed.
  RunConfiguration(fs::path file, std::string text, const Session& session)
      : file_(std::move(file)), text_(std::move(text)), session_(session) {
    if (!session_.resumed() || !is_there(file_)) write();
  }
  ~RunConfiguration() {
    try {
      follow();
    } catch (const Error& error) {
      fmt::print(stderr, "daso: warning: {}\n", error.what());
    }
  }
  RunConfiguration(const RunConfiguration&) = delete;
  RunConfiguration& operator=(const RunConfiguration&) = delete;

  void follow() {
    if (!written_ && session_.has_saved()) write();
  }

 private:
  void write() {
    write_file(file_, text_);
    written_ = true;
  }

  const fs::path file_;
  const std::string text_;
  const Session& session_;
  bool written_ = false;
};

int train(World& world, TrainCommand command) {
  command.options.out = agreed_folder(world, command.options.out);
  const fs::path& out = command.options.out;
  make_folder("--out", out);
  Run run(command.options);
  Session session(world, run);
  const bool first = world.rank() == 0;
  const Configuration resolved = resolved_configuration(world, session);
  std::optional<RunConfiguration> configuration;
  if (first) configuration.emplace(out / kConfigFile, toml_of(resolved), session);
  if (first && !command.json) print_start(world, command, session, resolved);
  if (first && command.options.precision == Precision::kBf16 && find_amx() == Amx::kCapped) {
    fmt::print(stderr, "daso: note: AMX: {}\n", text_of(find_amx()));
  }
  if (session.finished() && first && !command.json) {
    fmt::print("this run is finished: all {} epochs are done\n", command.options.epochs);
  }
  std::optional<TrainReport> report;
  if (first) {
    report.emplace(world, command.options, session, command.json);
  }
  const Interrupt interrupt;
  const auto on_progress = [&](const Progress& now) {
    configuration->follow();
    (*report)(now);
  };
  const Summary summary = session.train(on_progress, [&] { return interrupt.signal(); });
  if (!first) return summary.exit;
  report->end(summary);
  if (command.json) {
    fmt::print("{}", text_of(summary));
  } else {
    print_end(summary, out, session.finished());
  }
  return summary.exit;
}

bool counted_elsewhere(const LaunchFlags& launch) {
  return !launch.node_of_rank.empty() || !launch.cluster.empty() || !launch.rendezvous.empty() ||
         place_from(this_environment()).has_value();
}

// A run goes on with its own configuration; flags win, also over what belongs to what they replace.
// The ranks may be counted by others.
void apply_own_config(CLI::App& app, TrainCommand& command) {
  Settings& options = command.options;
  if (options.out.empty() && options.resume_from.empty()) options.out = newest_run();
  const fs::path run = options.resume_from.empty() ? options.out : run_of(options.resume_from);
  if (!is_there(run / kConfigFile)) return;
  const std::string file = (run / kConfigFile).string();
  std::vector<std::string> except = replaced_keys(app, options);
  const bool elsewhere = counted_elsewhere(command.launch);
  // A list counts the nodes itself.
  if (elsewhere || command.launch.ranks_per_node.size() > 1) except.emplace_back("nodes");
  const bool other_nodes =
      command.launch.nodes &&
      configured(file, "ranks-per-node").value_or("").find(',') != std::string::npos;
  if (elsewhere || other_nodes) except.emplace_back("ranks-per-node");
  apply_config_file(app, file, except);
}

void check_resume_from(const fs::path& checkpoint) {
  require(checkpoint.empty() || !is_there(checkpoint / kConfigFile),
          "--resume {} is the folder of a run, not of a checkpoint: --resume --out {} goes on with "
          "its newest",
          checkpoint.string(), checkpoint.string());
}

int act(CLI::App& app, TrainCommand& command, const Invocation& invocation) {
  const Settings& options = command.options;
  check_resume_from(options.resume_from);
  if (!command.config.empty()) {
    apply_config_file(app, command.config, replaced_keys(app, options));
  } else if (options.resume) {
    apply_own_config(app, command);
  }
  validate(options);
  require(options.resume || options.out.empty() || !newest_checkpoint(options.out / "checkpoints"),
          "--out {} holds a run already: give another folder, or --resume to go on with it",
          options.out.string());
  if (options.precision == Precision::kBf16) cap_instruction_sets();
  return on_ranks({"train", command.launch, kShape, configuration_of(command.options)},
                  invocation.arguments, [&](World& world) { return train(world, command); });
}

}  // namespace

Command add_train(CLI::App& parent) {
  CLI::App* app = parent.add_subcommand("train", "Train a model, from data to checkpoints");
  const auto command = std::make_shared<TrainCommand>();
  app->add_option("--config", command->config, "TOML file with flags by name; flags given win");
  add_train_flags(*app, command->options);
  app->add_flag("--json", command->json, "Print the summary alone, as JSON");
  add_launch_flags(*app, command->launch, kShape);
  add_world_flags(*app, command->launch);
  app->footer("docs/training.md tells more.");
  return {app,
          [app, command](const Invocation& invocation) { return act(*app, *command, invocation); }};
}

}  // namespace daso::cli
