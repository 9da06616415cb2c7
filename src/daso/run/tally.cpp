// SPDX-License-Identifier: Apache-2.0
#include "daso/run/tally.h"

#include <ATen/ATen.h>

namespace daso {

void Tally::add(const StrategyEvents& events) {
  for (const StrategyEvent& event : events) {
    if (event.kind == StrategyEvent::Kind::kMerge) {
      staleness.add(static_cast<double>(event.staleness));
    } else {
      ++exchanges;
    }
  }
}

State state_of(const Tally& tally) {
  State state = {{"loss.sum", real(tally.loss.sum())},
                 {"loss.number", integer(tally.loss.steps())},
                 {"train_loss", real(tally.train_loss)},
                 {"test_loss", real(tally.score.loss)},
                 {"test_accuracy", real(tally.score.accuracy)},
                 {"best_accuracy", real(tally.best_merit)},
                 {"exchanges", integer(tally.exchanges)},
                 {"staleness.sum", real(tally.staleness.sum)},
                 {"staleness.number", integer(tally.staleness.number)},
                 {"rate.factor", real(tally.rate.value)},
                 {"rate.best", real(tally.rate.stall.best)},
                 {"rate.bad_epochs", integer(tally.rate.stall.bad_epochs)},
                 {"skipped_steps", integer(tally.skipped_steps)}};
  if (tally.unseen_examples > 0) state["unseen_examples"] = integer(tally.unseen_examples);
  if (tally.score.top5) state["test_top5"] = real(*tally.score.top5);
  return state;
}

Tally tally_in(const State& state) {
  Tally tally = {
      .loss = {real_in(state, "loss.sum"), integer_in(state, "loss.number")},
      .train_loss = real_in(state, "train_loss"),
      .score = {.loss = real_in(state, "test_loss"), .accuracy = real_in(state, "test_accuracy")},
      .best_merit = real_in(state, "best_accuracy"),
      .exchanges = integer_in(state, "exchanges"),
      .staleness = {real_in(state, "staleness.sum"), integer_in(state, "staleness.number")},
      .rate = {.value = real_in(state, "rate.factor"),
               .stall = {.best = real_in(state, "rate.best"),
                         .bad_epochs = static_cast<int>(integer_in(state, "rate.bad_epochs"))}},
      .skipped_steps = integer_in(state, "skipped_steps")};
  if (state.contains("unseen_examples")) {
    tally.unseen_examples = integer_in(state, "unseen_examples");
  }
  if (state.contains("test_top5")) tally.score.top5 = real_in(state, "test_top5");
  return tally;
}

}  // namespace daso
