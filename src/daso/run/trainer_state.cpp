// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cstdio>
#include <tuple>

#include "daso/base/checksum.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/gather_text.h"
#include "daso/run/saved_model.h"
#include "daso/run/trainer_body.h"
#include "daso/tensor/safetensors.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTrained = "trained";

// Its own copy of each.
State copies_of(const State& tensors) {
  State copies;
  for (const auto& [name, tensor] : tensors) copies[name] = tensor.detach().clone();
  return copies;
}

// What decides which state a run needs.
std::string state_flags(const Settings& options) {
  std::string flags = fmt::format("--optimizer {} --precision {}", optimizer_name(options),
                                  name_of(options.precision));
  if (options.optimizer.ema) flags += fmt::format(" --ema {}", *options.optimizer.ema);
  if (!options.freeze.empty()) flags += " --freeze " + join(options.freeze, ",");
  return flags;
}

// The parameters that are not frozen, a checksum of each name. Flat tensors hold them side by side:
// with others frozen their numbers would belong to others, and their sizes might not tell.
at::Tensor trained_names(const FlatModel& model) {
  std::vector<std::int64_t> names;
  for (const FlatSpan& span : model.parameter_spans()) {
    names.push_back(static_cast<std::int64_t>(checksum_of(std::as_bytes(std::span(span.name)))));
  }
  return at::tensor(names, at::kLong);
}

std::string flags_of(const TransformerSizes& sizes) {
  return fmt::format("--layers {} --embedding {} --heads {}", sizes.layers, sizes.embedding,
                     sizes.heads);
}

// Refuses a checkpoint whose numbers would mean something else in this run, though all shapes fit.
void require_same_input(const std::string& checkpoint, const ModelInput& trained,
                        const std::string& data, const ModelInput& here) {
  require(trained.vocabulary == here.vocabulary,
          "{} was trained on a text of other tokens than --data {}: a text must have the same "
          "vocabulary; tokens=bytes fits every text",
          checkpoint, data);
  require_same_classes(checkpoint, trained, data, here.class_names);
  require(trained.transformer == here.transformer,
          "{} was trained with {}, this run has {}: go on with those that it was trained with",
          checkpoint, flags_of(trained.transformer), flags_of(here.transformer));
}

}  // namespace

ModelInput Trainer::Body::input() const {
  return input_of(*data.train, loading.normalisation, transformer_sizes(options));
}

void Trainer::Body::checkpoint(RunPlace at) {
  const TimedSpan span(world.timeline(), Track::kCheckpoint, "take", at.step);
  last_checkpoint = Clock::now();
  saved = at;
  has_saved = true;
  RunState state{.place = at,
                 .batches = run_plan.batches,
                 .model = options.model,
                 .strategy = options.strategy};
  strategy->settle();
  // With `none` every rank trains a model of its own.
  State& trained = traits_of(options.strategy).ties == Reach::kRank ? state.own : state.common;
  add_section(trained, "model.", copies_of(model.named_parameters()));
  add_section(trained, "optimizer.", optimizer->state());
  if (scaler) add_section(trained, "scaler.", scaler->state());
  add_section(state.common, "input.", state_of(input()));
  state.common[kTrained] = trained_names(model);
  add_section(state.own, "model.", copies_of(model.named_buffers()));
  add_section(state.own, "strategy.", strategy->state());
  add_section(state.own, "run.", state_of(tally));
  checkpoints.write(std::move(state));
}

// The checkpoint to go on from; none: the run has not got that far. Ranks that went on from
// different places would average what does not belong together, and what is written from here on
// must be the newest.
std::optional<fs::path> Trainer::Body::chosen_checkpoint() {
  const auto newest = newest_checkpoint(options.out / "checkpoints");
  auto chosen = options.resume_from.empty() ? newest : std::optional(options.resume_from);
  const std::vector<std::string> choices =
      gather_text(world.everyone(), chosen ? chosen->string() : "none", world.limit());
  for (std::size_t rank = 1; rank < choices.size(); ++rank) {
    require(choices[rank] == choices[0],
            "rank 0 would go on from checkpoint {}, rank {} from {}: --out must be a folder that "
            "all nodes share",
            choices[0], rank, choices[rank]);
  }
  if (chosen && newest) {
    const RunPlace from = read_manifest(*chosen).place;
    const RunPlace last = read_manifest(*newest).place;
    require(std::tie(last.epoch, last.batch) <= std::tie(from.epoch, from.batch),
            "{} is later than {}: give another --out to go on from there, or move it away",
            newest->string(), chosen->string());
  }
  return chosen;
}

// Another run's checkpoint is not this one's newest.
bool Trainer::Body::is_ours(const fs::path& checkpoint) const {
  std::error_code problem;  // a folder that is not there yet
  return fs::equivalent(checkpoint / "..", options.out / "checkpoints", problem);
}

void Trainer::Body::resume() {
  const std::optional<fs::path> folder = chosen_checkpoint();
  if (!folder) return;
  const RunState state = read_checkpoint(*folder, world);
  require(state.model == options.model, "{} is of a {}, this run has --model {}", folder->string(),
          state.model, options.model);
  require_same_input(folder->string(), input_in(section(state.common, "input.")), options.data,
                     input());
  const std::int64_t batches = state.batches > 0 ? state.batches : run_plan.batches;
  require(state.place.batch == 0 ||
              (batches == run_plan.batches && state.place.batch < run_plan.batches),
          "{} was written after step {} of {} of its epoch, and here an epoch has {} steps: batch "
          "size, data and ranks can only change at the beginning of an epoch",
          folder->string(), state.place.batch, batches, run_plan.batches);
  const bool same_strategy = state.strategy.empty() || state.strategy == options.strategy;
  require(same_strategy || (state.place.batch == 0 && traits_of(state.strategy).equal_after_epoch),
          "{} was written by --strategy {}, this run has {}: another strategy can only go on from "
          "the beginning of an epoch of sync, local or daso, when all nodes are equal",
          folder->string(), state.strategy, options.strategy);
  require(
      !state.other_ranks || state.strategy.empty() || traits_of(state.strategy).equal_after_epoch,
      "{} was written by --strategy {} on another number of ranks or nodes, whose models "
      "differ: go on with as many as it had",
      folder->string(), state.strategy);
  if (state.other_ranks && world.rank() == 0) {
    fmt::print(stderr,
               "daso: warning: {} was written by another number of ranks or nodes; going on with "
               "{} ranks on {} nodes from the beginning of epoch {}\n",
               folder->string(), world.size(), world.topology().nodes(), state.place.epoch + 1);
  }
  State all = state.common;
  all.insert(state.own.begin(), state.own.end());
  try {
    take_up(all, same_strategy);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format(
        "{} does not fit this run, which has {}: {}; go on with the flags that it was written with",
        folder->string(), state_flags(options), error.what()));
  }
  place = state.place;
  place.step = place.epoch * run_plan.batches + place.batch;
  // All decide alike: whether the last place is to be saved is everybody's business.
  const std::string ours = is_ours(*folder) ? "ours" : "another's";
  if (gather_text(world.everyone(), ours, world.limit()).front() == "ours") saved = place;
  resumed = true;
}

void Trainer::Body::take_up(const State& from, bool same_strategy) {
  const auto trained = from.find(kTrained);  // older checkpoints have none
  require(trained == from.end() || at::equal(trained->second, trained_names(model)),
          "other parameters were frozen");
  model.load(section(from, "model."));
  optimizer->load_state(section(from, "optimizer."));
  if (scaler) scaler->load_state(section(from, "scaler."));
  if (same_strategy) strategy->load_state(section(from, "strategy."));
  tally = tally_in(section(from, "run."));
}

void Trainer::Body::keep_if_best() {
  if (tally.score.accuracy <= tally.best_accuracy) return;
  tally.best_accuracy = tally.score.accuracy;
  if (world.rank() != 0) return;
  State tensors = copies_of(model.named_parameters());
  tensors.merge(copies_of(model.named_buffers()));
  try {
    const fs::path path = options.out / "best.safetensors";
    // Half of the limit: meanwhile the other ranks wait for this one.
    best_disk.within(world.limit() / 2, "writing " + path.string(),
                     [path, tensors = std::move(tensors)] { write_tensors(path, tensors); });
  } catch (const std::exception& error) {  // a disk that is full or hangs, as for checkpoints
    fmt::print(stderr, "daso: warning: the best model could not be kept: {}\n", error.what());
  }
}

}  // namespace daso
