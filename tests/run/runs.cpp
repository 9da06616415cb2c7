// SPDX-License-Identifier: Apache-2.0
#include "runs.h"

#include <csignal>
#include <fstream>
#include <sstream>

#include "run_ranks.h"

namespace daso::test {

namespace fs = std::filesystem;

Settings small_run(const fs::path& out) {
  Settings options;
  options.data = "synthetic:train=256,test=64,size=8,channels=1";
  options.model = "mlp";
  options.epochs = 3;
  options.batch_size = 16;
  options.out = out;
  options.keep = 1000;
  return options;
}

std::vector<Summary> train(const Settings& options, const RunOptions& run) {
  std::vector<Summary> summaries(run.nodes.size());
  const OnProgress on_progress = run.on_progress ? run.on_progress : [](const Progress&) {};
  run_ranks({.ranks = static_cast<int>(run.nodes.size()), .nodes = run.nodes}, [&](World& world) {
    Run whole(options, {}, run.device);
    Session session(world, whole);
    int step = 0;
    const auto interrupted = [&]() -> std::optional<int> {
      ++step;
      const bool stop = run.after_step && run.after_step(world.rank(), step);
      return stop ? std::optional(SIGTERM) : std::nullopt;
    };
    summaries[static_cast<std::size_t>(world.rank())] = session.train(on_progress, interrupted);
  });
  return summaries;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string result_in(const fs::path& out) {
  const fs::path newest = newest_checkpoint(out / "checkpoints").value();
  std::string all;
  for (const Manifest::Part& part : read_manifest(newest).parts) {
    all += part.name + bytes_of(newest / part.name);
  }
  return all;
}

}  // namespace daso::test
