// SPDX-License-Identifier: Apache-2.0
#include "daso/run/course.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <tuple>
#include <utility>

#include "daso/base/error.h"
#include "daso/comm/views.h"
#include "daso/exchange/hierarchical_mean.h"
#include "daso/optim/ema.h"
#include "daso/optim/gradients.h"
#include "daso/strategy/parts.h"
#include "daso/tensor/flat_values.h"
#include "daso/tensor/safetensors.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// Of two models the better one has more.
double merit_of(const Score& score) { return has_accuracy(score) ? score.accuracy : -score.loss; }

}  // namespace

void Course::begin_turn(InterruptedBy interrupted) {
  interrupted_ = std::move(interrupted);
  if (run_.place().batch == 0) run_.tally().loss = {};
  record_.begin_turn();
}

void Course::end_turn() {
  device_span_.reset();
  span_.reset();
  world_.timeline().record(false);
  record_.end_turn();
}

StepInfo Course::begin_step() {
  info_ = info_at(run_.place().epoch, run_.place().batch);
  record_.begin_step(info_.step);
  span_.emplace(world_.timeline(), Track::kTraining, "step", info_.step);
  device_span_.emplace(world_.timeline(), *lane_, DeviceSpan::Of::kCaller, "compute a step",
                       info_.step);
  // A step that a lost node breaks off is computed again, and forward has changed these.
  before_.clear();
  if (!world_.view()) return info_;
  const auto keep = [this](const at::Tensor& tensor) {
    before_.emplace_back(tensor, tensor.clone());
  };
  keep(run_.model().buffers());
  for (const at::Tensor& other : run_.model().others()) {
    if (!other.is_floating_point()) keep(other);  // BatchNorm counts its batches
  }
  return info_;
}

// The learning rate of the plan, as far as a plateau has let it fall.
StepInfo Course::info_at(int epoch, std::int64_t batch) const {
  const double factor = run_.tally().rate.value;
  StepInfo info = plan_.at(epoch, batch);
  info.rate *= factor;
  if (info.next_rate) *info.next_rate *= factor;
  return info;
}

void Course::set_rate(double rate, std::optional<double> next_rate) {
  info_.rate = rate;
  if (info_.next_rate) info_.next_rate = next_rate;
}

Communicator& Course::averaged_with() { return ranks_within(world_, strategy_->reach(info_)); }

void Course::begin_backward() { strategy_->begin_backward(info_); }

void Course::average(const at::Tensor& loss) {
  loss_ = loss;
  loss_watch_.add(loss, info_);
  strategy_->before_step();
  const at::Tensor& gradients = run_.model().gradients();
  // On the CPU they were looked at before they were averaged, and fp16 skips such steps.
  if (gradients.is_cpu() || run_.scaler() || !run_.task().finite_gradients) return;
  const at::Tensor overflow = clear_flag(gradients);
  check_finite_into(gradients, overflow);
  loss_watch_.add_gradients(overflow);
}

// A step that is skipped counts as one: what is due after it happens.
bool Course::update() {
  const Span span(world_.timeline(), Track::kTraining, "optimizer", info_.step);
  if (run_.scaler()) {
    world_.wait_for(run_.device(), "computing a step");  // unscale() reads a flag
    if (!run_.scaler()->unscale(run_.model())) {
      ++run_.tally().skipped_steps;
      return false;
    }
  }
  const std::optional<double>& clip = run_.settings().clip_norm;
  if (clip) clip_by_norm(run_.model(), *clip);
  run_.optimizer().step(info_.rate);
  return true;
}

void Course::end_step() {
  exchanged_ = false;
  try {
    const StrategyEvents done = strategy_->after_step(info_);
    run_.tally().add(done);
    exchanged_ = change_parameters(done);
    note(done);
    if (world_.view()) look_after_joiners(done);
  } catch (const PeerError&) {
    if (!world_.view()) throw;
    view_over_ = true;  // the step itself is done
  }
  device_span_.reset();
  record_.end_step();
  run_.tally().loss.add(loss_);
  run_.tally().unseen_examples += unseen_per_step();
  run_.move_to({.epoch = info_.epoch, .batch = info_.batch + 1, .step = info_.step + 1});
  run_.step_done();
  view_over_ = view_over_ || strategy_->view_ended();
  // Where nothing passes between nodes nothing fails when the view ends, which a joiner waits for.
  const bool apart =
      world_.topology().nodes() == 1 || traits_of(run_.settings().strategy).ties != Reach::kWorld;
  if (world_.view() && apart && !view_over_) view_over_ = world_.views()->ended();
  keep_to_script();
  before_.clear();
  const std::optional<Phase> phase = strategy_->status().phase;
  equal_ = !phase || is_blocking(*phase);
}

// Of the shares that an epoch was dealt in, those that nobody has: joiners take them first.
std::int64_t Course::unseen_per_step() const {
  const Settings& settings = run_.settings();
  const std::int64_t empty = std::max(0, run_.deal().ranks() - world_.size());
  return empty * samples_of_rank_.value_or(std::int64_t{settings.batch_size} * settings.accumulate);
}

void Course::count_samples(double per_step) {
  samples_of_rank_ = std::llround(per_step / world_.size());
  record_.count_samples(per_step);
}

// Rank 0 tells of what becomes of exchanges, where that depends on who is there.
void Course::note(const StrategyEvents& events) {
  if (!world_.view() || world_.rank() != 0) return;
  untold_.insert(untold_.end(), events.begin(), events.end());
}

Progress Course::progress() {
  Progress now = record_.progress(info_, plan_);
  now.events = std::exchange(untold_, {});
  return now;
}

void Course::go_on_at_end() {
  info_ = info_at(run_.place().epoch, plan_.batches - 1);
  // Where nodes have agreed, on these as well.
  if (equal_) strategy_->average_buffers();
}

bool Course::after_step(const OnProgress& on_progress) {
  if (epoch_is_done() || view_over_) return false;
  if (world_.rank() == 0) on_progress(progress());
  if (checkpoint_due()) checkpoint();
  return !stopping_;
}

void Course::end_epoch() {
  Tally& tally = run_.tally();
  evaluated_ = false;
  loss_watch_.flush();
  tally.train_loss = strategy_->mean_loss(info_.epoch, tally.loss.mean());
  if (run_.scaler()) agree_on_scale();
}

// Nodes skip steps by themselves between agreements, and start the next epoch alike.
void Course::agree_on_scale() {
  LossScaler& scaler = *run_.scaler();
  const at::Tensor smallest = at::full({2}, scaler.scale(), at::kDouble);
  smallest[1].fill_(scaler.good_steps());
  NodeLink* const home = world_.views() == nullptr ? nullptr : &world_.node_link("loss scale");
  wait_for_nodes(home, world_.limit(),
                 [&] { team_.all_reduce(smallest, Reduce::kMin).wait(world_.limit()); });
  scaler.agree_on(smallest[0].item<double>(), smallest[1].item<std::int64_t>());
}

void Course::evaluate(const std::function<Score()>& score) {
  std::optional<Swapped> averaged;
  if (run_.settings().optimizer.ema) {
    strategy_->settle();  // an agreement may be at work on the average
    averaged.emplace(run_.model(), run_.optimizer().average());
  }
  {
    const TimedSpan span(world_.timeline(), Track::kEvaluation, "evaluation", info_.epoch);
    run_.tally().score = score();
  }
  evaluated_ = true;
  if (run_.settings().keep_best) keep_if_best();
}

void Course::keep_if_best() {
  Tally& tally = run_.tally();
  const double merit = merit_of(tally.score);
  if (merit <= tally.best_merit) return;
  tally.best_merit = merit;
  if (world_.rank() != 0) return;
  State tensors;
  for (const State& part : {run_.model().named_parameters(), run_.model().named_buffers()}) {
    for (const auto& [name, tensor] : part) tensors[name] = kept(tensor);
  }
  try {
    const fs::path path = run_.settings().out / "best.safetensors";
    // Half of the limit: meanwhile the other ranks wait for this one.
    best_disk_.within(world_.limit() / 2, "writing " + path.string(),
                      [path, tensors = std::move(tensors)] { write_tensors(path, tensors); });
  } catch (const std::exception& error) {  // a disk that is full or hangs, as for checkpoints
    fmt::print(stderr, "daso: warning: the best model could not be kept: {}\n", error.what());
  }
}

void Course::close_epoch(const OnProgress& on_progress) {
  Tally& tally = run_.tally();
  if (!evaluated_) tally.score = {.loss = kUnknown, .accuracy = kUnknown};
  // Not before: where a node is lost in what comes between, the mean is found again, by others.
  strategy_->end_epoch(info_.epoch, tally.train_loss);
  daso::after_epoch(rate_, tally.rate, tally.train_loss);
  // An epoch that --max-steps cuts short can be gone on with.
  if (info_.batch + 1 == plan_.batches) {
    run_.move_to({.epoch = info_.epoch + 1, .batch = 0, .step = info_.step + 1});
    keep_to_script();
  }
  if (world_.rank() == 0) {
    Progress now = progress();
    now.loss = tally.train_loss;
    if (evaluated_) now.test = tally.score;
    on_progress(now);
  }
  if (checkpoint_due()) checkpoint();
  // Whoever came or went meanwhile has a share of the next epoch, or none.
  if (world_.view() && run_.deal().rank_ids != world_.view()->rank_ids) view_over_ = true;
}

// Steps and epochs are counted; minutes and signals are agreed on, since every rank has its own.
bool Course::checkpoint_due() {
  // What all do after the same step is not for steps that only some of them take.
  const RunPlace& common = takeover_.furthest;
  if (std::tie(info_.epoch, info_.batch) < std::tie(common.epoch, common.batch)) return false;
  const Request request = own_request();
  if (world_.view() && world_.view()->replayed) {
    // Nodes are where they were then, which is not where all are at the same time.
    require(request != Request::kStop, "a replay that is stopped cannot be gone on with");
    return false;
  }
  const Agreed agreed = control_.after_step(info_.step, request, record_.step_seconds());
  record_.follow(agreed);
  if (agreed.request == Request::kStop) stopping_ = true;
  if (agreed.request != Request::kNothing) return true;
  const std::optional<Every>& every = run_.settings().checkpoint_every;
  if (!every) return false;
  const auto [number, unit] = *every;
  if (unit == Every::Unit::kSteps) return (info_.step + 1) % number == 0;
  return unit == Every::Unit::kEpochs && epoch_is_done() && (info_.epoch + 1) % number == 0;
}

Request Course::own_request() const {
  if (interrupted_ && interrupted_()) return Request::kStop;
  if (run_.owes_checkpoint()) return Request::kCheckpoint;
  const std::optional<Every>& every = run_.settings().checkpoint_every;
  const bool by_the_clock = every && every->unit == Every::Unit::kMinutes;
  if (!by_the_clock || world_.rank() != 0) return Request::kNothing;
  const double minutes = since(last_checkpoint_).count() / 60;
  return minutes >= static_cast<double>(every->number) ? Request::kCheckpoint : Request::kNothing;
}

RunState Course::state() {
  strategy_->settle();
  loss_watch_.flush();
  world_.wait_for(run_.device(), "the last step");  // what follows reads tensors
  RunState state = run_.state();
  state.batches = plan_.batches;
  state.nodes = ranks_per_node(world_.topology());
  state.rank = world_.rank();
  add_section(state.own, "strategy.", strategy_->state());
  for (State* part : {&state.common, &state.own}) {
    for (auto& [name, tensor] : *part) tensor = tensor.cpu();  // of an optimizer of one's own
  }
  return state;
}

void Course::checkpoint() {
  saved_ = run_.place();
  const TimedSpan span(world_.timeline(), Track::kCheckpoint, "take", saved_.step);
  last_checkpoint_ = Clock::now();
  has_saved_ = true;
  checkpoints_.write(state());
  run_.owe_checkpoint(false);
}

void Course::settle() {
  record_.begin_turn();
  strategy_->settle();
  checkpoints_.settle();
  record_.end_turn();
}

Summary Course::finish() {
  record_.begin_turn();
  if (run_.place() != saved_) checkpoint();
  {
    const TimedSpan span(world_.timeline(), Track::kCheckpoint, "finish", run_.place().step);
    checkpoints_.finish();
  }
  record_.end_turn();
  Summary summary = record_.summary();
  summary.exit = stopping_ && !summary.finished ? run_.settings().stopped_exit : kExitOk;
  return summary;
}

void Course::leave() {
  try {
    checkpoints_.settle();
  } catch (const PeerError&) {
    if (!world_.view()) throw;  // a checkpoint that a lost node has part in is none
  }
  if (checkpoints_.broken_off()) run_.owe_checkpoint(true);
  for (const auto& [tensor, before] : before_) tensor.copy_(before);
  RunState left = state();
  note(strategy_->take_undone());
  const bool agreed = left.place.batch == 0 || (left.place.batch == plan_.batches &&
                                                !left.own.contains("strategy.cycle.put_off"));
  left.equal = traits_of(run_.settings().strategy).equal_after_epoch && (equal_ || agreed);
  if (world_.view() && world_.view()->end && has_come_to(run_.place(), *world_.view()->end)) {
    // Who had fallen behind the others takes what they have, in the replay as well.
    const std::optional<ViewEnd::Place> place = world_.view()->end->left;
    if (place) std::tie(left.place.epoch, left.place.batch) = std::tie(place->epoch, place->batch);
  }
  run_.leave(std::move(left));
}

}  // namespace daso
