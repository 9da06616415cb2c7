// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/error.h"
#include "daso/comm/topology.h"
#include "daso/data/loader.h"
#include "daso/nets/make_network.h"
#include "daso/optim/learning_rate.h"
#include "daso/optim/optimizer.h"
#include "daso/policy/run_plan.h"
#include "daso/run/precision.h"
#include "daso/strategy/strategy.h"
#include "daso/tensor/device.h"

namespace daso {

// How often: "5steps", "1epochs", "10minutes".
struct Every {
  enum class Unit { kSteps, kEpochs, kMinutes };
  std::int64_t number = 1;
  Unit unit = Unit::kEpochs;
  bool operator==(const Every&) const = default;
};
// Throws ConfigError, naming the flag.
Every parse_every(const std::string& flag, const std::string& text);
std::string text_of(const Every& every);

// Steps from `first` to before `end`.
struct StepRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
  bool operator==(const StepRange&) const = default;
};
// "steps=100..200", or "none". Throws ConfigError, naming the flag.
std::optional<StepRange> parse_trace(const std::string& flag, const std::string& text);

// Whether steps on a GPU are captured as a graph (train_step.h), where that is possible.
enum class Graphs { kAuto, kOff };

// A run as it was asked for; what is not given comes from the preset, the model or the data. Each
// member has a row in settings_table.cpp.
struct Settings {
  std::string data = "synthetic";
  std::string model = "cnn";
  std::optional<int> layers;  // of a transformer, as are the next two
  std::optional<int> embedding;
  std::optional<int> heads;
  double dropout = 0;                  // of a transformer or vit-tiny
  std::string init;                    // a file of tensors; empty: by the seed
  std::vector<std::string> init_skip;  // prefixes of names that it is not taken for
  std::vector<std::string> freeze;     // prefixes of names of parameters that stay as they are
  int epochs = 6;
  std::optional<int> max_steps;   // of the whole run; none: all of its epochs
  int batch_size = 32;            // per rank and backward
  int accumulate = 1;             // backwards per step
  std::optional<double> lr;       // peak; else by the optimizer
  std::optional<double> base_lr;  // instead: for 256 samples of the global batch, scaled linearly
  std::optional<double> lr_warmup_epochs;
  std::optional<double> lr_start;  // where the warm-up begins; else at base_lr, or 0
  RateKind lr_schedule = RateKind::kCosine;
  std::optional<double> lr_end;    // cosine, polynomial: a part of the peak
  std::optional<double> lr_power;  // polynomial
  std::optional<double> lr_gamma;  // step, plateau
  std::vector<double> lr_steps;    // step: epochs
  std::optional<int> lr_patience;  // plateau
  std::optional<double> lr_threshold;
  OptimizerOptions optimizer{.name = ""};  // no name: by the model
  std::optional<double> weight_decay;      // else by the optimizer
  std::optional<double> momentum;          // sgd, lars
  std::optional<double> trust;             // lars
  std::optional<double> clip_norm;
  double label_smoothing = 0;  // of the training loss alone
  Precision precision = Precision::kFp32;
  Graphs graphs = Graphs::kAuto;
  bool deterministic = false;  // GPUs: the same bits each time; a CPU gives them anyway
  bool sync_batchnorm = false;  // statistics over the ranks of a node
  std::string strategy = "daso";
  std::string preset = "default";  // or paper
  std::optional<ScheduleKind> schedule;
  std::optional<int> skip;
  std::optional<int> wait;
  std::optional<double> alpha;
  std::optional<int> patience;
  std::optional<double> threshold;
  std::optional<int> warmup_epochs;
  std::optional<int> cooldown_epochs;
  std::optional<MergeRule> merge;
  std::optional<ExchangeKind> exchange;
  std::optional<Wire> wire;
  std::int64_t bucket_elements = StrategyOptions{}.bucket_elements;
  Augment augment = Augment::kNone;
  bool skip_bad_images = false;  // of --data images:DIR
  Uneven uneven = Uneven::kDrop;
  std::uint64_t seed = 1;
  DeviceChoice device;     // of a rank's arithmetic
  int threads = 1;         // of it on the CPU
  int loader_threads = 1;  // that prepare batches
  std::filesystem::path out;
  std::optional<Every> checkpoint_every;  // none: at the end only
  int keep = 2;                           // newest checkpoints that stay
  bool keep_best = false;
  std::optional<StepRange> trace;   // what trace.json holds; none: it is not written
  bool histograms = false;          // of parameters, for TensorBoard
  int stopped_exit = kExitStopped;  // the exit code of a run that was told to stop
  bool resume = false;
  std::filesystem::path resume_from;  // empty: the newest of `out`
};

// In the folder of a run: its settings, all given that count.
inline constexpr const char* kConfigFile = "config.toml";

// Throws ConfigError for what is impossible whatever the data.
void validate(const Settings& options);

// Takes back what the strategy has no use for.
void drop_idle_strategy_flags(Settings& options);

// The ranks whose samples train one model: all, with `node` those of the first node, with `none`
// one. --base-lr is scaled by them.
int ranks_of_a_model(const Settings& options, const Topology& topology);

// The peak of the learning rate, for a number of ranks.
double peak_of(const Settings& options, int ranks);

// The optimizer's name, which the model decides where none is given.
std::string optimizer_name(const Settings& options);

// The optimizer with its name, weight decay and all. Throws ConfigError where options contradict
// each other.
OptimizerOptions optimizer_options(const Settings& options);

// Of --model transformer.
TransformerSizes transformer_sizes(const Settings& options);

// The preset with what was asked for in its place.
Preset preset_of(const Settings& options, int nodes);

// What of validate() concerns the strategy, whatever the number of nodes.
void validate_strategy(const Settings& options);

// What the strategy gets, once the number of nodes and the steps of an epoch are known. Throws
// ConfigError where options contradict each other.
StrategyOptions strategy_options(const Settings& options, const RunPlan& run_plan, int nodes);

// Linear warm-up, by default of one epoch, then what the schedule of the rate says. Throws
// ConfigError where options contradict each other.
LearningRateOptions rate_options(const Settings& options, int ranks, std::int64_t batches);

RunPlan run_plan_of(const Settings& options, int ranks, std::int64_t batches);

// Gives everything that counts for the rate.
void resolve_rate(Settings& options, int ranks, std::int64_t batches);

// The options with everything given that counts in a run: none of it is left to presets.
Settings resolved(const Settings& options, const RunPlan& run_plan, const Topology& topology);

}  // namespace daso
