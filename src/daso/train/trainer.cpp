// SPDX-License-Identifier: Apache-2.0
#include "daso/train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <cmath>
#include <csignal>
#include <mutex>

#include "daso/base/error.h"
#include "daso/model/freeze.h"
#include "daso/model/safetensors.h"
#include "daso/optim/clip.h"
#include "daso/train/control.h"
#include "daso/train/saved_model.h"
#include "daso/train/tally.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr int kEvaluationBatch = 256;
constexpr int kSignalBase = 128;

std::shared_ptr<Network> network_for(const TrainOptions& options, const Dataset& data) {
  // Ranks that are threads share LibTorch's generator.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(options.seed);
  const ImageShape shape = data.shape();
  auto network = make_network({.name = options.model,
                               .channels = shape.channels,
                               .height = shape.height,
                               .width = shape.width,
                               .classes = data.classes()});
  freeze(*network, options.freeze);
  return network;
}

LoaderOptions loader_options(const TrainOptions& options, const Dataset& data, const World& world) {
  return {.shard = {.examples = data.size(),
                    .ranks = world.size(),
                    .batch_size = options.batch_size * options.accumulate,
                    .uneven = options.uneven,
                    .seed = options.seed},
          .rank = world.rank(),
          .threads = options.loader_threads,
          .augment = options.augment,
          .normalisation = normalisation_of(data)};
}

// The ranks that train one model together: they are evaluated together.
Communicator& team_of(World& world, const std::string& strategy) {
  if (strategy == "none") return world.group({world.rank()}, fmt::format("rank {}", world.rank()));
  return strategy == "node" ? world.node_group() : world.everyone();
}

// Its own copy of each.
State copies_of(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
  State copies;
  for (const auto& item : tensors) copies[item.key()] = item.value().detach().clone();
  return copies;
}

}  // namespace

struct Trainer::Body {
  Body(World& the_world, const TrainOptions& the_options);

  Summary run(const OnProgress& on_progress);
  void train_epoch(int epoch, std::int64_t from, const OnProgress& on_progress);
  double train_batch(const Batch& batch, const When& when);
  void follow(const Plan& done);
  void end_epoch(int epoch, const OnProgress& on_progress);
  bool checkpoint_due(const When& when);
  Wish own_wish() const;
  double worked();
  double waited() const { return strategy->costs().wait_seconds + evaluation_wait; }
  void checkpoint(RunPlace place);
  void resume();
  void keep_if_best();
  Progress progress(const When& when) const;
  Summary summary() const;

  World& world;
  const TrainOptions options;
  Datasets data;
  std::shared_ptr<Network> network;
  FlatModel model;
  std::unique_ptr<Optimizer> optimizer;
  LoaderOptions loading;
  Loader loader;
  Course course;
  std::unique_ptr<Strategy> strategy;
  Communicator& team;
  std::vector<Batch> test_part;
  Control control;
  CheckpointWriter checkpoints;
  InterruptedBy interrupted;

  RunPlace place;               // the step to go on with
  std::int64_t saved_step = 0;  // of the newest checkpoint; a run's beginning needs none
  bool resumed = false;
  bool stopping = false;
  Tally tally;
  std::int64_t steps_here = 0;  // done by this process
  Clock::time_point start = Clock::now();
  Clock::time_point epoch_start = start;
  Clock::time_point last_checkpoint = start;
  Clock::time_point last_step = start;  // when it ended
  double last_wait = 0;                 // waited() then
  double evaluation_wait = 0;
  double epoch_wait = 0;  // waited() at the epoch's beginning
  std::int64_t epoch_steps = 0;
  Plan plan;
  std::int64_t skip = 0;  // of the last exchange that began; 0: none in this phase
  int wait = 0;
  std::int64_t in_flight_for = 0;  // steps since it began; 0: none is in flight
  std::optional<Late> late;
};

Trainer::Body::Body(World& the_world, const TrainOptions& the_options)
    : world(the_world),
      options(the_options),
      data(open_data(options.data)),
      network(network_for(options, *data.train)),
      model(network),
      optimizer(make_optimizer(model, optimizer_options(options))),
      loading(loader_options(options, *data.train, world)),
      loader(data.train, loading),
      course(course_of(options, world.size(), loader.batches())),
      strategy(make_strategy(world, model, *optimizer,
                             strategy_options(options, course, world.topology().nodes()))),
      team(team_of(world, options.strategy)),
      test_part(evaluation_batches(*data.test, kEvaluationBatch, team.rank(), team.size(),
                                   loading.normalisation)),
      control(world),
      checkpoints(world, options.out / "checkpoints", options.keep) {
  at::set_num_threads(options.threads);
  if (!options.init.empty()) model.load(read_tensors(options.init).tensors);
  if (options.resume) resume();
}

Summary Trainer::Body::run(const OnProgress& on_progress) {
  start = last_checkpoint = last_step = Clock::now();
  while (place.epoch < course.epochs && !stopping) {
    train_epoch(place.epoch, place.batch, on_progress);
  }
  if (place.step != saved_step) checkpoint(place);
  checkpoints.finish();
  return summary();
}

void Trainer::Body::train_epoch(int epoch, std::int64_t from, const OnProgress& on_progress) {
  network->train();
  epoch_start = Clock::now();
  epoch_wait = waited();
  epoch_steps = 0;
  if (from == 0) tally.loss = {};
  loader.start(epoch, from);
  for (std::int64_t batch = from; batch < course.batches; ++batch) {
    const When when = course.at(epoch, batch);
    tally.loss.add(train_batch(loader.next(), when));
    place = {.epoch = epoch, .batch = batch + 1, .step = when.step + 1};
    if (batch == when.last) return end_epoch(epoch, on_progress);
    if (world.rank() == 0) on_progress(progress(when));
    if (checkpoint_due(when)) checkpoint(place);
    if (stopping) return;
  }
}

double Trainer::Body::train_batch(const Batch& batch, const When& when) {
  model.zero_gradients();
  const std::int64_t part = batch.labels.size(0) / options.accumulate;
  double sum = 0;
  for (int i = 0; i < options.accumulate; ++i) {
    if (i + 1 == options.accumulate) strategy->begin_backward(when);
    const at::Tensor scores = network->forward(batch.inputs.narrow(0, i * part, part));
    const at::Tensor mean = at::cross_entropy_loss(scores, batch.labels.narrow(0, i * part, part));
    (mean / options.accumulate).backward();
    sum += mean.item<double>();
  }
  if (!std::isfinite(sum)) {
    throw Error(
        fmt::format("the loss of rank {} is {} in step {}: the run has diverged; a smaller "
                    "learning rate than {} may help, or --clip-norm",
                    world.rank(), sum, when.step, when.rate));
  }
  strategy->before_step();
  if (options.clip_norm) clip_by_norm(model, *options.clip_norm);
  optimizer->step(when.rate);
  plan = strategy->after_step(when);
  follow(plan);
  ++steps_here;
  ++epoch_steps;
  return sum / options.accumulate;
}

// Keeps what the plan says of the exchange in flight, for people to see.
void Trainer::Body::follow(const Plan& done) {
  tally.add(done);
  if (in_flight_for > 0) ++in_flight_for;
  if (done.merge) in_flight_for = 0;
  if (done.then == Plan::Then::kStart) in_flight_for = 1;
  if (is_blocking(done.phase)) skip = wait = 0;
  if (done.skip > 0) {
    skip = done.skip;
    wait = done.wait;
  }
}

void Trainer::Body::end_epoch(int epoch, const OnProgress& on_progress) {
  tally.train_loss = strategy->end_epoch(epoch, tally.loss.value());
  tally.score = evaluate(*network, test_part, team, world.limit());
  evaluation_wait += tally.score.wait_seconds;
  const When when = course.at(epoch, course.batches - 1);
  place = {.epoch = epoch + 1, .batch = 0, .step = when.step + 1};
  if (options.keep_best) keep_if_best();
  if (world.rank() == 0) {
    Progress now = progress(when);
    now.loss = tally.train_loss;
    now.test = tally.score;
    on_progress(now);
  }
  if (checkpoint_due(when)) checkpoint(place);
}

// Steps and epochs are counted; minutes and signals are agreed on, since every rank has its own.
bool Trainer::Body::checkpoint_due(const When& when) {
  const Wish wish = own_wish();
  const Agreed agreed = control.after_step(when.step, wish, worked());
  if (agreed.late) late = agreed.late;
  if (agreed.wish == Wish::kStop) stopping = true;
  if (agreed.wish != Wish::kNothing) return true;
  if (!options.checkpoint_every) return false;
  const auto [number, unit] = *options.checkpoint_every;
  if (unit == Every::Unit::kSteps) return (when.step + 1) % number == 0;
  return unit == Every::Unit::kEpochs && when.batch == when.last && (when.epoch + 1) % number == 0;
}

Wish Trainer::Body::own_wish() const {
  if (interrupted()) return Wish::kStop;
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

void Trainer::Body::checkpoint(RunPlace at) {
  last_checkpoint = Clock::now();
  saved_step = at.step;
  RunState state{.place = at, .model = options.model};
  add_section(state.common, "model.", copies_of(network->named_parameters()));
  add_section(state.common, "optimizer.", optimizer->state());
  add_section(state.common, "input.", state_of(input_of(*data.train, loading.normalisation)));
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
  State tensors = section(state.common, "model.");
  tensors.merge(section(state.own, "model."));
  model.load(tensors);
  optimizer->load_state(section(state.common, "optimizer."));
  strategy->load_state(section(state.own, "strategy."));
  place = state.place;
  saved_step = place.step;
  tally = tally_in(section(state.own, "run."));
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

Progress Trainer::Body::progress(const When& when) const {
  const double seconds = since(epoch_start).count();
  const double samples =
      static_cast<double>(epoch_steps) * options.batch_size * options.accumulate * world.size();
  return {.when = when,
          .epochs = course.epochs,
          .phase = plan.phase,
          .skip = skip,
          .wait = wait,
          .in_flight_for = in_flight_for,
          .loss = tally.loss.value(),
          .samples_per_second = samples / seconds,
          .wait_share = (waited() - epoch_wait) / seconds,
          .late = late,
          .test = std::nullopt};
}

Summary Trainer::Body::summary() const {
  const double seconds = since(start).count();
  const Costs costs = strategy->costs();
  at::Tensor totals = at::tensor(
      {waited() / world.size(), static_cast<double>(costs.bytes_between_nodes)}, at::kDouble);
  totals = world.everyone().all_reduce(totals, Reduce::kSum).wait(world.limit());
  const double samples =
      static_cast<double>(steps_here) * options.batch_size * options.accumulate * world.size();
  Summary summary{.strategy = options.strategy,
                  .nodes = world.topology().nodes(),
                  .ranks = world.size(),
                  .epochs = place.epoch,
                  .steps = place.step,
                  .seconds = seconds,
                  .samples_per_second = samples / seconds,
                  .wait_seconds = totals[0].item<double>(),
                  .exchanges = tally.exchanges,
                  .staleness_mean = tally.staleness.value(),
                  .bytes_between_nodes = static_cast<std::int64_t>(totals[1].item<double>()),
                  .train_loss = tally.train_loss,
                  .test_loss = tally.score.loss,
                  .test_accuracy = tally.score.accuracy};
  summary.exit = interrupted() == SIGINT ? kSignalBase + SIGINT : kExitOk;
  summary.out = options.out.string();
  return summary;
}

Trainer::Trainer(World& world, const TrainOptions& options)
    : body_(std::make_unique<Body>(world, options)) {}
Trainer::~Trainer() = default;

Summary Trainer::run(const OnProgress& on_progress, InterruptedBy interrupted) {
  body_->interrupted = std::move(interrupted);
  return body_->run(on_progress);
}

TrainOptions Trainer::options() const {
  return resolved(body_->options, body_->course, body_->world.topology());
}
bool Trainer::finished() const { return body_->place.epoch >= body_->course.epochs; }
std::optional<RunPlace> Trainer::resumed() const {
  return body_->resumed ? std::optional(body_->place) : std::nullopt;
}

}  // namespace daso
