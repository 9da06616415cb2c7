// SPDX-License-Identifier: Apache-2.0
#include "daso/train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <mutex>

#include "daso/base/cpu.h"
#include "daso/base/error.h"
#include "daso/model/batch_norm.h"
#include "daso/model/dropout.h"
#include "daso/model/freeze.h"
#include "daso/model/network.h"
#include "daso/model/safetensors.h"
#include "daso/optim/clip.h"
#include "daso/optim/ema.h"
#include "daso/train/loss.h"
#include "daso/train/trainer_body.h"

namespace daso {
namespace {

constexpr int kEvaluationBatch = 256;

std::shared_ptr<Network> network_for(const TrainOptions& options, const Dataset& data) {
  // Ranks that are threads share LibTorch's generator.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  at::manual_seed(options.seed);
  const InputShape shape = data.shape();
  auto network = make_network({.name = options.model,
                               .text = shape.kind == InputKind::kText,
                               .channels = shape.channels,
                               .height = shape.height,
                               .width = shape.width,
                               .classes = data.classes(),
                               .transformer = transformer_sizes(options),
                               .dropout = options.dropout});
  freeze(*network, options.freeze);
  return network;
}

LoaderOptions loader_options(const TrainOptions& options,
                             const std::shared_ptr<const Dataset>& data, const World& world) {
  return {.shard = {.examples = data->size(),
                    .ranks = world.size(),
                    .batch_size = options.batch_size * options.accumulate,
                    .uneven = options.uneven,
                    .seed = options.seed},
          .rank = world.rank(),
          .threads = options.loader_threads,
          .augment = options.augment,
          .normalisation = normalisation_of(data)};
}

TrainOptions checked(const TrainOptions& options) {
  require(options.precision != Precision::kBf16 || !bf16_traps(),
          "bf16 would end this process by an illegal instruction: the processor advertises AMX, "
          "which does not work here; call cap_instruction_sets() at the beginning of main, or set "
          "{}={}",
          kCap, kCappedTo);
  return options;
}

// The ranks that train one model together: they are evaluated together.
Communicator& team_of(World& world, const std::string& strategy) {
  if (strategy == "none") return world.group({world.rank()}, fmt::format("rank {}", world.rank()));
  return strategy == "node" ? world.node_group() : world.everyone();
}

// What a run does. An error is told to the other ranks at once: leaving the run waits for what it
// has in the background, and they would wait for this rank meanwhile.
template <typename Act>
auto told(World& world, const Act& act) {
  try {
    return act();
  } catch (const PeerError&) {
    throw;
  } catch (const std::exception& error) {
    world.abandon(error.what());
    throw;
  }
}

}  // namespace

Trainer::Body::Body(World& the_world, const TrainOptions& the_options)
    : world(the_world),
      options(checked(the_options)),
      data(open_data(options.data, {.skip_bad_images = options.skip_bad_images})),
      network(network_for(options, *data.train)),
      model(network),
      optimizer(make_optimizer(model, optimizer_options(options))),
      loading(loader_options(options, data.train, world)),
      loader(data.train, loading),
      rate(rate_options(options, world.size(), loader.batches())),
      course(course_of(options, world.size(), loader.batches())),
      strategy(make_strategy(world, model, *optimizer,
                             strategy_options(options, course, world.topology().nodes()))),
      team(team_of(world, options.strategy)),
      test_part(data.test, {.batch_size = kEvaluationBatch,
                            .rank = team.rank(),
                            .ranks = team.size(),
                            .threads = options.loader_threads,
                            .normalisation = loading.normalisation}),
      control(world),
      checkpoints(world, options.out / "checkpoints", options.keep),
      lateness(static_cast<std::size_t>(world.size())) {
  at::set_num_threads(options.threads);
  if (options.precision == Precision::kFp16) scaler.emplace();
  if (options.sync_batchnorm) share_batch_norm();
  if (options.trace) trace.emplace(world);  // before an exchange in flight is taken up
  if (options.resume) resume();
  // A run that goes on has no need of what it began with, which may be gone.
  if (!resumed && !options.init.empty()) model.load(read_tensors(options.init).tensors);
}

// In a group of its own: gradients travel at the same time.
void Trainer::Body::share_batch_norm() {
  Communicator& node = world.group(world.topology().ranks_of(world.node()),
                                   fmt::format("statistics of {}", world.node()));
  const int layers = share_statistics(*network, [this, &node](const at::Tensor& values) {
    const TimedSpan span(world.timeline(), Track::kWaiting, "statistics", place.step,
                         statistics_wait);
    node.all_reduce(values, Reduce::kSum).wait(world.limit());
  });
  require(layers > 0, "--sync-batchnorm changes nothing here: model '{}' has no BatchNorm",
          options.model);
}

bool Trainer::Body::advance(const OnProgress& on_progress) {
  if (place.epoch >= course.epochs || stopping) return false;
  active_since = epoch_start = last_step = Clock::now();
  epoch_wait = last_wait = waited();
  train_epoch(place.epoch, place.batch, on_progress);
  world.timeline().record(false);
  spent.seconds += since(active_since).count();
  return true;
}

void Trainer::Body::train_epoch(int epoch, std::int64_t from, const OnProgress& on_progress) {
  network->train();
  epoch_steps = 0;
  if (from == 0) tally.loss = {};
  loader.start(epoch, from);
  for (std::int64_t batch = from; batch < course.batches; ++batch) {
    const When when = when_at(epoch, batch);
    record_step(when.step);
    const Span span(world.timeline(), Track::kTraining, "step", when.step);
    tally.loss.add(train_batch(next_batch(when), when));
    place = {.epoch = epoch, .batch = batch + 1, .step = when.step + 1};
    if (batch == when.last) return end_epoch(epoch, on_progress);
    if (world.rank() == 0) on_progress(progress(when));
    if (checkpoint_due(when)) checkpoint(place);
    if (stopping) return;
  }
}

// The learning rate of the course, as far as a plateau has let it fall.
When Trainer::Body::when_at(int epoch, std::int64_t batch) const {
  When when = course.at(epoch, batch);
  when.rate *= tally.rate.value;
  if (when.next_rate) *when.next_rate *= tally.rate.value;
  return when;
}

Batch Trainer::Body::next_batch(const When& when) {
  const TimedSpan span(world.timeline(), Track::kData, "data", when.step, spent.data);
  return loader.next();
}

double Trainer::Body::train_batch(const Batch& batch, const When& when) {
  Timeline& timeline = world.timeline();
  model.zero_gradients();
  const std::int64_t part = batch.labels.size(0) / options.accumulate;
  double sum = 0;
  for (int i = 0; i < options.accumulate; ++i) {
    if (i + 1 == options.accumulate) strategy->begin_backward(when);
    if (options.dropout > 0) {
      draw_dropout(*network,
                   {.seed = options.seed, .rank = world.rank(), .step = when.step, .part = i});
    }
    std::optional<Span> span(std::in_place, timeline, Track::kTraining, "forward", when.step);
    const at::Tensor scores = scores_of(batch.inputs.narrow(0, i * part, part));
    const at::Tensor mean =
        training_loss(scores, batch.labels.narrow(0, i * part, part), options.label_smoothing);
    sum += mean.item<double>();
    span.emplace(timeline, Track::kTraining, "backward", when.step);
    const at::Tensor share = mean / options.accumulate;
    (scaler ? share * scaler->scale() : share).backward();
  }
  if (!std::isfinite(sum)) {
    throw Error(
        fmt::format("the loss of rank {} is {} in step {}: the run has diverged; a smaller "
                    "learning rate than {} may help, or --clip-norm",
                    world.rank(), sum, when.step, when.rate));
  }
  strategy->before_step();
  update(when);
  plan = strategy->after_step(when);
  follow(plan);
  ++steps_here;
  ++epoch_steps;
  return sum / options.accumulate;
}

at::Tensor Trainer::Body::scores_of(const at::Tensor& inputs) {
  const Autocast autocast(options.precision);
  return network->forward(inputs).to(at::kFloat);
}

// A step that is skipped counts as one: what is due after it happens.
void Trainer::Body::update(const When& when) {
  const Span span(world.timeline(), Track::kTraining, "optimizer", when.step);
  if (scaler && !scaler->unscale(model)) {
    ++tally.skipped_steps;
    return;
  }
  if (options.clip_norm) clip_by_norm(model, *options.clip_norm);
  optimizer->step(when.rate);
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
  const When when = when_at(epoch, course.batches - 1);
  after_epoch(rate, tally.rate, tally.train_loss);
  place = {.epoch = epoch + 1, .batch = 0, .step = when.step + 1};
  if (world.rank() == 0) {
    Progress now = progress(when);
    now.loss = tally.train_loss;
    now.test = tally.score;
    on_progress(now);
  }
  if (checkpoint_due(when)) checkpoint(place);
}

// Of the averaged parameters, where there are any; what is kept as the best is what was evaluated.
void Trainer::Body::evaluate_epoch(int epoch) {
  std::optional<Swapped> averaged;
  if (const at::Tensor average = optimizer->average(); average.defined()) {
    strategy->settle();
    averaged.emplace(model, average);
  }
  {
    const TimedSpan span(world.timeline(), Track::kEvaluation, "evaluation", epoch,
                         spent.evaluation);
    tally.score = evaluate(*network, test_part, team, world.limit());
  }
  evaluation_wait += tally.score.wait_seconds;
  if (options.keep_best) keep_if_best();
}

// Steps and epochs are counted; minutes and signals are agreed on, since every rank has its own.
bool Trainer::Body::checkpoint_due(const When& when) {
  const Wish wish = own_wish();
  const Agreed agreed = control.after_step(when.step, wish, worked());
  follow(agreed);
  if (agreed.wish == Wish::kStop) stopping = true;
  if (agreed.wish != Wish::kNothing) return true;
  if (!options.checkpoint_every) return false;
  const auto [number, unit] = *options.checkpoint_every;
  if (unit == Every::Unit::kSteps) return (when.step + 1) % number == 0;
  return unit == Every::Unit::kEpochs && when.batch == when.last && (when.epoch + 1) % number == 0;
}

Wish Trainer::Body::own_wish() const {
  if (interrupted && interrupted()) return Wish::kStop;
  const bool by_the_clock =
      options.checkpoint_every && options.checkpoint_every->unit == Every::Unit::kMinutes;
  if (!by_the_clock || world.rank() != 0) return Wish::kNothing;
  const double minutes = since(last_checkpoint).count() / 60;
  return minutes >= static_cast<double>(options.checkpoint_every->number) ? Wish::kCheckpoint
                                                                          : Wish::kNothing;
}

// The seconds since the last call, without those in which this rank waited for others.
double Trainer::Body::worked() {
  const double whole = since(std::exchange(last_step, Clock::now())).count();
  const double before = std::exchange(last_wait, waited());
  return whole - (last_wait - before);
}

Trainer::Trainer(World& world, const TrainOptions& options)
    : body_(std::make_unique<Body>(world, options)) {}
Trainer::~Trainer() = default;

bool Trainer::advance(const OnProgress& on_progress, InterruptedBy interrupted) {
  body_->interrupted = std::move(interrupted);
  return told(body_->world, [&] { return body_->advance(on_progress); });
}

void Trainer::settle() {
  const auto begun = Clock::now();
  body_->strategy->settle();
  body_->spent.seconds += since(begun).count();
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
TrainOptions Trainer::options() const {
  return resolved(body_->options, body_->course, body_->world.topology());
}
bool Trainer::finished() const { return body_->place.epoch >= body_->course.epochs; }
std::optional<RunPlace> Trainer::resumed() const {
  return body_->resumed ? std::optional(body_->place) : std::nullopt;
}

}  // namespace daso
