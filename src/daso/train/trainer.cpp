// SPDX-License-Identifier: Apache-2.0
#include "daso/train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/utils.h>

#include <csignal>
#include <mutex>

#include "daso/base/error.h"
#include "daso/model/safetensors.h"
#include "daso/optim/clip.h"
#include "daso/train/control.h"
#include "daso/train/saved_model.h"

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
  return make_network({.name = options.model,
                       .channels = shape.channels,
                       .height = shape.height,
                       .width = shape.width,
                       .classes = data.classes()});
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

// What a mean over an epoch is made of.
struct Mean {
  double sum = 0;
  std::int64_t number = 0;
  void add(double value) {
    sum += value;
    ++number;
  }
  double value() const { return number == 0 ? 0 : sum / static_cast<double>(number); }
};

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
  void end_epoch(int epoch, const OnProgress& on_progress);
  bool checkpoint_due(const When& when);
  Wish own_wish() const;
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

  RunPlace place;  // the step to go on with
  std::int64_t saved_step = 0;  // of the newest checkpoint; a run's beginning needs none
  bool resumed = false;
  bool stopping = false;
  Mean loss;  // of the epoch under way
  double train_loss = 0;
  Score score;
  double best_accuracy = -1;
  std::int64_t exchanges = 0;
  Mean staleness;
  std::int64_t steps_here = 0;  // done by this process
  Clock::time_point start = Clock::now();
  Clock::time_point epoch_start = Clock::now();
  Clock::time_point last_checkpoint = Clock::now();
  double epoch_wait = 0;  // of the costs, at the epoch's beginning
  std::int64_t epoch_steps = 0;
  Plan plan;
};

Trainer::Body::Body(World& the_world, const TrainOptions& the_options)
    : world(the_world),
      options(the_options),
      data(open_data(options.data)),
      network(network_for(options, *data.train)),
      model(network),
      optimizer(make_optimizer(model, options.optimizer)),
      loading(loader_options(options, *data.train, world)),
      loader(data.train, loading),
      course(course_of(options, loader.batches())),
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
  start = last_checkpoint = Clock::now();
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
  epoch_wait = strategy->costs().wait_seconds;
  epoch_steps = 0;
  if (from == 0) loss = {};
  loader.start(epoch, from);
  for (std::int64_t batch = from; batch < course.batches; ++batch) {
    const When when = course.at(epoch, batch);
    loss.add(train_batch(loader.next(), when));
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
  strategy->before_step();
  if (options.clip_norm) clip_by_norm(model, *options.clip_norm);
  optimizer->step(when.rate);
  plan = strategy->after_step(when);
  if (plan.then != Plan::Then::kNothing) ++exchanges;
  if (plan.merge) staleness.add(static_cast<double>(plan.merge->staleness));
  ++steps_here;
  ++epoch_steps;
  return sum / options.accumulate;
}

void Trainer::Body::end_epoch(int epoch, const OnProgress& on_progress) {
  train_loss = strategy->end_epoch(epoch, loss.value());
  score = evaluate(*network, test_part, team, world.limit());
  const When when = course.at(epoch, course.batches - 1);
  place = {.epoch = epoch + 1, .batch = 0, .step = when.step + 1};
  if (options.keep_best) keep_if_best();
  if (world.rank() == 0) {
    Progress now = progress(when);
    now.loss = train_loss;
    now.test = score;
    on_progress(now);
  }
  if (checkpoint_due(when)) checkpoint(place);
}

// Steps and epochs are counted; minutes and signals are agreed on, since every rank has its own.
bool Trainer::Body::checkpoint_due(const When& when) {
  const Wish agreed = control.after_step(when.step, own_wish());
  if (agreed == Wish::kStop) stopping = true;
  if (agreed != Wish::kNothing) return true;
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

void Trainer::Body::checkpoint(RunPlace at) {
  last_checkpoint = Clock::now();
  saved_step = at.step;
  RunState state{.place = at, .model = options.model};
  add_section(state.common, "model.", copies_of(network->named_parameters()));
  add_section(state.common, "optimizer.", optimizer->state());
  add_section(state.common, "input.", state_of(input_of(*data.train, loading.normalisation)));
  add_section(state.own, "model.", copies_of(network->named_buffers()));
  add_section(state.own, "strategy.", strategy->state());
  State& own = state.own;
  own["run.loss.sum"] = real(loss.sum);
  own["run.loss.number"] = integer(loss.number);
  own["run.train_loss"] = real(train_loss);
  own["run.test_loss"] = real(score.loss);
  own["run.test_accuracy"] = real(score.accuracy);
  own["run.best_accuracy"] = real(best_accuracy);
  own["run.exchanges"] = integer(exchanges);
  own["run.staleness.sum"] = real(staleness.sum);
  own["run.staleness.number"] = integer(staleness.number);
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
  loss = {real_in(state.own, "run.loss.sum"), integer_in(state.own, "run.loss.number")};
  train_loss = real_in(state.own, "run.train_loss");
  score = {real_in(state.own, "run.test_loss"), real_in(state.own, "run.test_accuracy")};
  best_accuracy = real_in(state.own, "run.best_accuracy");
  exchanges = integer_in(state.own, "run.exchanges");
  staleness = {real_in(state.own, "run.staleness.sum"),
               integer_in(state.own, "run.staleness.number")};
  resumed = true;
}

void Trainer::Body::keep_if_best() {
  if (score.accuracy <= best_accuracy) return;
  best_accuracy = score.accuracy;
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
          .loss = loss.value(),
          .samples_per_second = samples / seconds,
          .wait_share = (strategy->costs().wait_seconds - epoch_wait) / seconds,
          .test = std::nullopt};
}

Summary Trainer::Body::summary() const {
  const double seconds = since(start).count();
  const Costs costs = strategy->costs();
  at::Tensor totals = at::tensor(
      {costs.wait_seconds / world.size(), static_cast<double>(costs.bytes_between_nodes)},
      at::kDouble);
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
                  .exchanges = exchanges,
                  .staleness_mean = staleness.value(),
                  .bytes_between_nodes = static_cast<std::int64_t>(totals[1].item<double>()),
                  .train_loss = train_loss,
                  .test_loss = score.loss,
                  .test_accuracy = score.accuracy};
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

bool Trainer::finished() const { return body_->place.epoch >= body_->course.epochs; }
std::optional<RunPlace> Trainer::resumed() const {
  return body_->resumed ? std::optional(body_->place) : std::nullopt;
}

}  // namespace daso
