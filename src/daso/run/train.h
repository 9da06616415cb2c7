// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "daso/comm/world.h"
#include "daso/run/run.h"

// What `daso train` does on its ranks, for programs with a module and data of their own. Such a
// program is one call, and takes the flags of `daso train` that concern a run:
//
//   int main(int argc, char** argv) {
//     return daso::train_main(argc, argv, {.epochs = 20, .out = "runs/mine"},
//                             [](const daso::Settings&) -> daso::Task {
//       Net net;
//       return {.module = net, .train = daso::tensors(x, y), .test = daso::tensors(x2, y2)};
//     });
//   }
namespace daso {

class Interrupt;  // in interrupt.h
class Worlds;     // in worlds.h

struct TrainOptions {
  bool json = false;  // print the summary alone, as JSON
  // That of the process, where it has one since it began; borrowed. None: signals count from here.
  Interrupt* interrupt = nullptr;
  std::string note;   // for people, among the first lines; empty: nothing
  std::string go_on;  // the command that goes on with a run that was stopped; empty: the same one
  std::filesystem::path replayed;  // the run that this one is a replay of; empty: none
};

// Trains the run to its end, or until a signal says stop, and returns the exit code of
// docs/errors.md: a session with its checkpoints, progress on rank 0's standard output, and all
// files in settings.out. Throws ConfigError for what does not fit, also where a run that is not to
// be resumed would overwrite another one.
int train(World& world, Run& run, const TrainOptions& options = {});

// The same in one world after the other, where nodes may be lost (comm/worlds.h). `make` is called
// in the first world that this process belongs to. The options are borrowed, and read after it.
using MakeRun = std::function<std::unique_ptr<Run>(World& world)>;
int train(Worlds& worlds, const TrainOptions& options, const MakeRun& make);

// The settings with what the command line says: the flags of docs/settings.md, and nothing else.
// Throws ConfigError.
Settings parse_flags(const std::vector<std::string>& words, Settings settings = {});

// What the ranks of a program train, made on each of them alike. LibTorch's generator is seeded by
// settings.seed before, so that what is drawn is the same on all.
using MakeTask = std::function<Task(const Settings& settings)>;

// The main function of such a program: reads the flags into the settings (--help prints them,
// --json is that of TrainOptions), joins the world that a launcher made (rank_main), and trains.
// Returns the exit code of docs/errors.md.
int train_main(int argc, const char* const* argv, const Settings& settings,
               const MakeTask& make_task);

}  // namespace daso
