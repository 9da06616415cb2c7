// SPDX-License-Identifier: Apache-2.0
#include "daso/run/trainer.h"

#include <ATen/ATen.h>

#include <cmath>

#include "daso/base/error.h"
#include "daso/comm/message_of.h"
#include "daso/nets/layers.h"
#include "daso/nets/network.h"
#include "daso/optim/ema.h"
#include "daso/optim/gradients.h"
#include "daso/run/loss.h"
#include "daso/run/trainer_body.h"

namespace daso {
namespace {

// What a run does. An error is told to the other ranks at once: leaving the run waits for what it
// has in the background, and they would wait for this rank meanwhile.
template <typename Act>
auto told(World& world, const Act& act) {
  try {
    return act();
  } catch (const PeerError&) {
    throw;
  } catch (const std::exception& error) {
    world.abandon(message_of(error));
    throw;
  }
}

}  // namespace

bool Trainer::Body::advance(const OnProgress& on_progress) {
  if (place.epoch >= run_plan.epochs || stopping) return false;
  meter.start();
  train_epoch(place.epoch, place.batch, on_progress);
  world.timeline().record(false);
  meter.stop();
  return true;
}

void Trainer::Body::train_epoch(int epoch, std::int64_t from, const OnProgress& on_progress) {
  network->train();
  if (from == 0) tally.loss = {};
  loader.start(epoch, from);
  for (std::int64_t batch = from; batch < run_plan.batches; ++batch) {
    const StepInfo info = when_at(epoch, batch);
    record_step(info.step);
    const Span span(world.timeline(), Track::kTraining, "step", info.step);
    tally.loss.add(train_batch(next_batch(info), info));
    place = {.epoch = epoch, .batch = batch + 1, .step = info.step + 1};
    if (batch == info.last) return end_epoch(epoch, on_progress);
    if (world.rank() == 0) on_progress(progress(info));
    if (checkpoint_due(info)) checkpoint(place);
    if (stopping) return;
  }
}

// The learning rate of the course, as far as a plateau has let it fall.
StepInfo Trainer::Body::when_at(int epoch, std::int64_t batch) const {
  StepInfo info = run_plan.at(epoch, batch);
  info.rate *= tally.rate.value;
  if (info.next_rate) *info.next_rate *= tally.rate.value;
  return info;
}

Batch Trainer::Body::next_batch(const StepInfo& info) {
  const TimedSpan span(world.timeline(), Track::kData, "data", info.step);
  return loader.next();
}

double Trainer::Body::train_batch(const Batch& batch, const StepInfo& info) {
  Timeline& timeline = world.timeline();
  model.zero_gradients();
  const std::int64_t part = batch.labels.size(0) / options.accumulate;
  double sum = 0;
  for (int i = 0; i < options.accumulate; ++i) {
    if (i + 1 == options.accumulate) strategy->begin_backward(info);
    if (options.dropout > 0) {
      draw_dropout(*network,
                   {.seed = options.seed, .rank = world.rank(), .step = info.step, .part = i});
    }
    std::optional<Span> span(std::in_place, timeline, Track::kTraining, "forward", info.step);
    const at::Tensor scores = scores_of(batch.inputs.narrow(0, i * part, part));
    const at::Tensor mean =
        training_loss(scores, batch.labels.narrow(0, i * part, part), options.label_smoothing);
    sum += mean.item<double>();
    span.emplace(timeline, Track::kTraining, "backward", info.step);
    const at::Tensor share = mean / options.accumulate;
    (scaler ? share * scaler->scale() : share).backward();
  }
  if (!std::isfinite(sum)) {
    throw Error(
        fmt::format("the loss of rank {} is {} in step {}: the run has diverged; a smaller "
                    "learning rate than {} may help, or --clip-norm",
                    world.rank(), sum, info.step, info.rate));
  }
  strategy->before_step();
  update(info);
  tally.add(strategy->after_step(info));
  meter.step();
  return sum / options.accumulate;
}

at::Tensor Trainer::Body::scores_of(const at::Tensor& inputs) {
  const Autocast autocast(options.precision);
  return network->forward(inputs).to(at::kFloat);
}

// A step that is skipped counts as one: what is due after it happens.
void Trainer::Body::update(const StepInfo& info) {
  const Span span(world.timeline(), Track::kTraining, "optimizer", info.step);
  if (scaler && !scaler->unscale(model)) {
    ++tally.skipped_steps;
    return;
  }
  if (options.clip_norm) clip_by_norm(model, *options.clip_norm);
  optimizer->step(info.rate);
}

// Nodes skip steps by themselves between agreements, and start the next epoch alike.
void Trainer::Body::agree_on_scale() {
  const at::Tensor smallest = at::full({2}, scaler->scale(), at::kDouble);
  smallest[1].fill_(scaler->good_steps());
  team.all_reduce(smallest, Reduce::kMin).wait(world.limit());
  scaler->agree_on(smallest[0].item<double>(), smallest[1].item<std::int64_t>());
}

void Trainer::Body::end_epoch(int epoch, const OnProgress& on_progress) {
  tally.train_loss = strategy->end_epoch(epoch, tally.loss.value());
  if (scaler) agree_on_scale();
  evaluate_epoch(epoch);
  const StepInfo info = when_at(epoch, run_plan.batches - 1);
  after_epoch(rate, tally.rate, tally.train_loss);
  place = {.epoch = epoch + 1, .batch = 0, .step = info.step + 1};
  if (world.rank() == 0) {
    Progress now = progress(info);
    now.loss = tally.train_loss;
    now.test = tally.score;
    on_progress(now);
  }
  if (checkpoint_due(info)) checkpoint(place);
}

// Of the averaged parameters, where there are any; what is kept as the best is what was evaluated.
void Trainer::Body::evaluate_epoch(int epoch) {
  std::optional<Swapped> averaged;
  if (options.optimizer.ema) {
    strategy->settle();  // an agreement may be at work on the average
    averaged.emplace(model, optimizer->average());
  }
  {
    const TimedSpan span(world.timeline(), Track::kEvaluation, "evaluation", epoch);
    tally.score = evaluate(*network, test_part, team, world);
  }
  if (options.keep_best) keep_if_best();
}

// Steps and epochs are counted; minutes and signals are agreed on, since every rank has its own.
bool Trainer::Body::checkpoint_due(const StepInfo& info) {
  const Request request = own_request();
  const Agreed agreed = control.after_step(info.step, request, meter.worked());
  meter.hear(agreed.late, agreed.worked);
  if (agreed.request == Request::kStop) stopping = true;
  if (agreed.request != Request::kNothing) return true;
  if (!options.checkpoint_every) return false;
  const auto [number, unit] = *options.checkpoint_every;
  if (unit == Every::Unit::kSteps) return (info.step + 1) % number == 0;
  return unit == Every::Unit::kEpochs && info.batch == info.last && (info.epoch + 1) % number == 0;
}

Request Trainer::Body::own_request() const {
  if (interrupted && interrupted()) return Request::kStop;
  const bool by_the_clock =
      options.checkpoint_every && options.checkpoint_every->unit == Every::Unit::kMinutes;
  if (!by_the_clock || world.rank() != 0) return Request::kNothing;
  const double minutes = since(last_checkpoint).count() / 60;
  return minutes >= static_cast<double>(options.checkpoint_every->number) ? Request::kCheckpoint
                                                                          : Request::kNothing;
}

Trainer::Trainer(World& world, const Settings& options)
    : body_(std::make_unique<Body>(world, options)) {}
Trainer::~Trainer() = default;

bool Trainer::advance(const OnProgress& on_progress, InterruptedBy interrupted) {
  body_->interrupted = std::move(interrupted);
  return told(body_->world, [&] { return body_->advance(on_progress); });
}

void Trainer::settle() {
  body_->meter.start();
  body_->strategy->settle();
  body_->checkpoints.settle();
  body_->meter.stop();
}

Summary Trainer::finish() {
  return told(body_->world, [&] { return body_->finish(); });
}

Summary Trainer::run(const OnProgress& on_progress, const InterruptedBy& interrupted) {
  while (advance(on_progress, interrupted)) {
  }
  return finish();
}

const FlatModel& Trainer::model() const { return body_->model; }
Settings Trainer::options() const {
  return resolved(body_->options, body_->run_plan, body_->world.topology());
}
bool Trainer::finished() const { return body_->place.epoch >= body_->run_plan.epochs; }
bool Trainer::has_saved() const { return body_->has_saved; }
std::optional<RunPlace> Trainer::resumed() const {
  return body_->resumed ? std::optional(body_->place) : std::nullopt;
}

}  // namespace daso
