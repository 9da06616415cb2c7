// SPDX-License-Identifier: Apache-2.0
#include "daso/record/record.h"

#include "daso/base/paths.h"
#include "daso/record/lateness.h"
#include "daso/record/meter.h"
#include "daso/record/run_files.h"
#include "daso/record/trace.h"

namespace daso {
struct Record::Body {
  Body(World& the_world, const Strategy& strategy, const RecordOptions& the_options)
      : world(the_world),
        options(the_options),
        meter(world, strategy, options.batch_size * world.size()),
        times(world, "step times") {
    if (world.rank() == 0) {
      make_folder(options.folder);
      files.emplace(world, RunFacts{.folder = options.folder,
                                    .strategy = options.strategy,
                                    .model = options.model,
                                    .data = options.data,
                                    .epochs = options.epochs,
                                    .first_step = options.first_step});
    }
    if (options.trace_steps > 0) trace.emplace(world);
    meter.start();
    begin_step(options.first_step);
  }

  void begin_step(std::int64_t number) {
    world.timeline().record(number - options.first_step < options.trace_steps);
    step_begin = Clock::now();
  }

  void end_step() {
    meter.step();
    if (world.timeline().recording()) {
      world.timeline().add({.name = "step",
                            .track = Track::kTraining,
                            .number = info.step,
                            .begin = step_begin,
                            .end = Clock::now()});
    }
    times.add(info.step, meter.step_seconds());
    if (!times.due(info.step)) return;
    if (const auto heard = times.collect()) meter.hear(heard->late, heard->worked);
    times.tell(info.step);
  }

  void put(double loss_now, const std::optional<Score>& found) {
    if (!files) return;
    Progress now = meter.progress(info, options.epochs);
    now.loss = loss_now;
    now.own_loss = loss;
    now.test = found;
    files->add(now);
  }

  World& world;
  const RecordOptions options;
  Meter meter;
  StepTimes times;
  std::optional<RunFiles> files;  // rank 0's
  std::optional<Trace> trace;
  Clock::time_point step_begin;
  StepInfo info;     // of the last step
  RunningMean loss;  // of the epoch so far
  RunningMean staleness;
  Summary told;  // what the loop has told, for the end
};

Record::Record(World& world, const Strategy& strategy, const RecordOptions& options)
    : body_(std::make_unique<Body>(world, strategy, options)) {
  body_->told.evaluated = false;
}
Record::~Record() = default;

void Record::step(const StepInfo& info, double loss, const StrategyEvents& events) {
  Body& own = *body_;
  own.info = info;
  own.loss.add(loss);
  own.told.steps = info.step + 1;
  for (const StrategyEvent& event : events) {
    if (event.kind == StrategyEvent::Kind::kMerge) {
      own.staleness.add(static_cast<double>(event.staleness));
    } else {
      ++own.told.exchanges;
    }
  }
  own.end_step();
  // An epoch's last step is recorded at its end, when the loss of all ranks is known.
  if (info.batch != info.last) own.put(own.loss.value(), std::nullopt);
  own.begin_step(info.step + 1);
}

void Record::end_epoch(double train_loss, const std::optional<Score>& test) {
  Body& own = *body_;
  own.put(train_loss, test);
  own.told.epochs = own.info.epoch + 1;
  own.told.train_loss = train_loss;
  own.told.evaluated = test.has_value();
  if (test) {
    own.told.test_loss = test->loss;
    own.told.test_accuracy = test->accuracy;
  }
  own.loss = {};
  own.meter.stop();
  own.meter.start();
}

Summary Record::finish() {
  Body& own = *body_;
  own.meter.stop();
  own.world.timeline().record(false);
  Summary summary = own.meter.summary();
  summary.strategy = own.options.strategy;
  summary.epochs = own.told.epochs;
  summary.steps = own.told.steps;
  summary.exchanges = own.told.exchanges;
  summary.staleness_mean = own.staleness.value();
  summary.train_loss = own.told.train_loss;
  summary.evaluated = own.told.evaluated;
  summary.test_loss = own.told.test_loss;
  summary.test_accuracy = own.told.test_accuracy;
  summary.finished = summary.epochs >= own.options.epochs;
  summary.out = own.options.folder.string();
  if (own.trace) own.trace->write(own.options.folder / "trace.json", own.meter.late());
  if (own.files) own.files->end(summary);  // which adds nothing: there are no views here
  return summary;
}

}  // namespace daso
