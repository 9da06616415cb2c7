// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cstdio>

#include "daso/base/error.h"
#include "daso/model/safetensors.h"
#include "daso/train/saved_model.h"
#include "daso/train/trainer_body.h"

namespace daso {
namespace {

// Its own copy of each.
State copies_of(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  State copies;
  for (const auto& item : tensors) copies[item.key()] = item.value().detach().clone();
  return copies;
}

}  // namespace

ModelInput Trainer::Body::input() const {
  return input_of(*data.train, loading.normalisation, transformer_sizes(options));
}

void Trainer::Body::checkpoint(RunPlace at) {
  const TimedSpan span(world.timeline(), Track::kCheckpoint, "take", at.step, spent.checkpoint);
  last_checkpoint = Clock::now();
  saved_step = at.step;
  RunState state{.place = at, .model = options.model};
  strategy->settle();
  // With `none` every rank trains a model of its own.
  State& trained = options.strategy == "none" ? state.own : state.common;
  add_section(trained, "model.", copies_of(network->named_parameters()));
  add_section(trained, "optimizer.", optimizer->state());
  if (scaler) add_section(trained, "scaler.", scaler->state());
  add_section(state.common, "input.", state_of(input()));
  add_section(state.own, "model.", copies_of(network->named_buffers()));
  add_section(state.own, "strategy.", strategy->state());
  add_section(state.own, "run.", state_of(tally));
  checkpoints.write(std::move(state));
}

void Trainer::Body::resume() {
  const auto folder = options.resume_from.empty() ? newest_checkpoint(options.out / "checkpoints")
                                                  : std::optional(options.resume_from);
  if (!folder) return;
  const RunState state = read_checkpoint(*folder, world);
  require(state.model == options.model, "{} is of a {}, this run has --model {}", folder->string(),
          state.model, options.model);
  require(input_in(section(state.common, "input.")).vocabulary == input().vocabulary,
          "{} was trained on a text of other tokens than --data {}: a text must have the same "
          "vocabulary; tokens=bytes fits every text",
          folder->string(), options.data);
  if (state.other_ranks && world.rank() == 0) {
    fmt::print(
        stderr,
        "daso: {} was written by another number of ranks or nodes; going on with {} ranks on "
        "{} nodes from the beginning of epoch {}\n",
        folder->string(), world.size(), world.topology().nodes(), state.place.epoch + 1);
  }
  State all = state.common;
  all.insert(state.own.begin(), state.own.end());
  model.load(section(all, "model."));
  optimizer->load_state(section(all, "optimizer."));
  if (scaler) scaler->load_state(section(all, "scaler."));
  strategy->load_state(section(all, "strategy."));
  place = state.place;
  saved_step = place.step;
  tally = tally_in(section(all, "run."));
  resumed = true;
}

void Trainer::Body::keep_if_best() {
  if (tally.score.accuracy <= tally.best_accuracy) return;
  tally.best_accuracy = tally.score.accuracy;
  if (world.rank() != 0) return;
  State tensors = copies_of(network->named_parameters());
  tensors.merge(copies_of(network->named_buffers()));
  write_tensors(options.out / "best.safetensors", tensors);
}

}  // namespace daso
