// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <csignal>

#include "daso/base/error.h"
#include "daso/run/trainer_body.h"

namespace daso {
namespace {

constexpr int kSignalBase = 128;

}  // namespace

void Trainer::Body::follow(const Agreed& agreed) {
  if (!agreed.late) return;
  last_agreed = agreed;
  add(*agreed.late, lateness);
  if (!trace || agreed.late->seconds < kLateSeconds) return;
  marks.push_back({agreed.late->rank, agreed.late->step,
                   fmt::format("late by {:.0f} ms", 1e3 * agreed.late->seconds)});
}

void Trainer::Body::record_step(std::int64_t step) {
  if (!options.trace) return;
  world.timeline().record(step >= options.trace->first && step < options.trace->end);
}

Progress Trainer::Body::progress(const StepInfo& info) const {
  const double seconds = since(epoch_start).count();
  const double samples =
      static_cast<double>(epoch_steps) * options.batch_size * options.accumulate * world.size();
  return {.info = info,
          .epochs = run_plan.epochs,
          .seconds = spent.seconds + since(active_since).count(),
          .strategy = strategy->status(),
          .loss = tally.loss.value(),
          .samples_per_second = samples / seconds,
          .wait_share = (waited() - epoch_wait) / seconds,
          .wait_seconds = waited(),
          .bytes_between_nodes = strategy->costs().bytes_between_nodes,
          .late = last_agreed.late,
          .worked = last_agreed.worked,
          .test = std::nullopt};
}

TimeSpent Trainer::Body::time_spent() const {
  TimeSpent own = spent;
  const Costs costs = strategy->costs();
  own.exposed_communication = waited();
  own.hidden_communication = std::max(0.0, costs.communication_seconds - costs.wait_seconds);
  own.evaluation -= evaluation_wait;
  return own;
}

Summary Trainer::Body::finish() {
  active_since = Clock::now();
  if (place != saved) checkpoint(place);
  {
    const TimedSpan span(world.timeline(), Track::kCheckpoint, "finish", place.step,
                         spent.checkpoint);
    checkpoints.finish();
  }
  spent.seconds += since(active_since).count();
  const std::int64_t bad_images = data.train->bad_files() + data.test->bad_files();
  at::Tensor totals = at::tensor(
      {waited() / world.size(), static_cast<double>(strategy->costs().bytes_between_nodes),
       static_cast<double>(bad_images)},
      at::kDouble);
  totals = world.everyone().all_reduce(totals, Reduce::kSum).wait(world.limit());
  const double samples =
      static_cast<double>(steps_here) * options.batch_size * options.accumulate * world.size();
  Summary summary{.strategy = options.strategy,
                  .nodes = world.topology().nodes(),
                  .ranks = world.size(),
                  .epochs = place.epoch,
                  .steps = place.step,
                  .seconds = spent.seconds,
                  .samples_per_second = samples / spent.seconds,
                  .wait_seconds = totals[0].item<double>(),
                  .exchanges = tally.exchanges,
                  .staleness_mean = tally.staleness.value(),
                  .bytes_between_nodes = static_cast<std::int64_t>(totals[1].item<double>()),
                  .skipped_steps = tally.skipped_steps,
                  .train_loss = tally.train_loss,
                  .test_loss = tally.score.loss,
                  .test_accuracy = tally.score.accuracy};
  if (options.skip_bad_images) {
    summary.bad_images = static_cast<std::int64_t>(totals[2].item<double>());
  }
  summary.time_budget = time_budget(world, time_spent());
  for (int rank = 0; rank < world.size(); ++rank) {
    summary.late.push_back({.rank = rank,
                            .node = world.topology().node_of(rank),
                            .lateness = lateness[static_cast<std::size_t>(rank)]});
  }
  summary.exit = interrupted && interrupted() == SIGINT ? kSignalBase + SIGINT : kExitOk;
  summary.out = options.out.string();
  if (trace) trace->write(options.out / "trace.json", marks);
  return summary;
}

}  // namespace daso
