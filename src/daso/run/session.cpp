// SPDX-License-Identifier: Apache-2.0
#include "daso/run/session.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdio>

#include "daso/base/error.h"
#include "daso/comm/message_of.h"
#include "daso/nets/layers.h"
#include "daso/nets/network.h"
#include "daso/optim/ema.h"
#include "daso/optim/gradients.h"
#include "daso/tensor/lane.h"
#include "daso/tensor/safetensors.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kModuleDraws = 8;  // tells this use of the seed from others

// While it lives LibTorch computes with so many threads.
class Threads {
 public:
  explicit Threads(int number) : before_(at::get_num_threads()) { at::set_num_threads(number); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;
  ~Threads() { at::set_num_threads(before_); }

 private:
  const int before_;
};

// Of two models the better one has more.
double merit_of(const Score& score) { return has_accuracy(score) ? score.accuracy : -score.loss; }

// An error is told to the other ranks at once: leaving the session waits for what it has in the
// background, and they would wait for this rank meanwhile.
template <typename Act>
auto with_abandon(World& world, const Act& act) {
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

Summary Session::train(const OnProgress& on_progress, const InterruptedBy& interrupted) {
  while (train_epoch(on_progress, interrupted)) {
  }
  return finish();
}

bool Session::train_epoch(const OnProgress& on_progress, InterruptedBy interrupted) {
  interrupted_ = std::move(interrupted);
  if (run_.finished() || stopping_) return false;
  return with_abandon(world_, [&] {
    const Threads threads(run_.settings().threads);
    const TrainingStream stream(run_.device());
    if (run_.task().module) draws_.emplace(run_.device());
    record_.begin_turn();
    train_batches(on_progress);
    world_.timeline().record(false);
    record_.end_turn();
    draws_.reset();
    return true;
  });
}

void Session::train_batches(const OnProgress& on_progress) {
  const auto [epoch, first, step] = run_.place();
  run_.network().train();
  if (first == 0) run_.tally().loss = {};
  loader_.start(epoch, first);
  feed_.start(loader_, plan_.batches - first);
  for (std::int64_t batch = first; batch < plan_.batches; ++batch) {
    const StepInfo info = info_at(epoch, batch);
    record_.begin_step(info.step);
    const Span span(world_.timeline(), Track::kTraining, "step", info.step);
    run_.tally().loss.add(train_batch(next_batch(info), info));
    run_.move_to({.epoch = epoch, .batch = batch + 1, .step = info.step + 1});
    if (batch == info.last) return end_epoch(epoch, on_progress);
    if (world_.rank() == 0) on_progress(record_.progress(info, plan_));
    if (checkpoint_due(info)) checkpoint();
    if (stopping_) return;
  }
}

// The learning rate of the plan, as far as a plateau has let it fall.
StepInfo Session::info_at(int epoch, std::int64_t batch) const {
  const double factor = run_.tally().rate.value;
  StepInfo info = plan_.at(epoch, batch);
  info.rate *= factor;
  if (info.next_rate) *info.next_rate *= factor;
  return info;
}

Batch Session::next_batch(const StepInfo& info) {
  const TimedSpan span(world_.timeline(), Track::kData, "data", info.step);
  return feed_.next();
}

// Returns the mean loss, in fp64 and not read.
at::Tensor Session::train_batch(const Batch& batch, const StepInfo& info) {
  StepCalls calls{.draw = [&](int part) { draw_anew(info, part); },
                  .begin_backward = [&] { strategy_->begin_backward(info); }};
  if (run_.scaler()) calls.loss_scale = run_.scaler()->scale();
  const at::Tensor mean = compute_(batch, info.step, calls);
  loss_watch_.add(mean, info);
  strategy_->before_step();
  update(info);
  run_.tally().add(strategy_->after_step(info));
  record_.end_step();
  return mean;
}

// What modules draw depends on the step, not on what was drawn before: a run that is resumed goes
// on with the same bits.
void Session::draw_anew(const StepInfo& info, int part) {
  const Settings& settings = run_.settings();
  if (settings.dropout > 0) {
    draw_dropout(run_.module(),
                 {.seed = settings.seed, .rank = world_.rank(), .step = info.step, .part = part});
  }
  if (draws_) {
    draws_->draw_by({settings.seed, kModuleDraws, static_cast<std::uint64_t>(world_.rank()),
                     static_cast<std::uint64_t>(info.step), static_cast<std::uint64_t>(part)});
  }
}

// A step that is skipped counts as one: what is due after it happens.
void Session::update(const StepInfo& info) {
  const Span span(world_.timeline(), Track::kTraining, "optimizer", info.step);
  if (run_.scaler() && !run_.scaler()->unscale(run_.model())) {
    ++run_.tally().skipped_steps;
    return;
  }
  const std::optional<double>& clip = run_.settings().clip_norm;
  if (clip) clip_by_norm(run_.model(), *clip);
  run_.optimizer().step(info.rate);
}

void Session::end_epoch(int epoch, const OnProgress& on_progress) {
  Tally& tally = run_.tally();
  loss_watch_.flush();
  tally.train_loss = strategy_->end_epoch(epoch, tally.loss.mean());
  if (run_.scaler()) agree_on_scale();
  evaluate_epoch(epoch);
  const StepInfo info = info_at(epoch, run_.place().batch - 1);
  after_epoch(rate_, tally.rate, tally.train_loss);
  // An epoch that --max-steps cuts short can be gone on with.
  if (info.batch + 1 == plan_.batches) {
    run_.move_to({.epoch = epoch + 1, .batch = 0, .step = info.step + 1});
  }
  if (world_.rank() == 0) {
    Progress now = record_.progress(info, plan_);
    now.loss = tally.train_loss;
    now.test = tally.score;
    on_progress(now);
  }
  if (checkpoint_due(info)) checkpoint();
}

// Nodes skip steps by themselves between agreements, and start the next epoch alike.
void Session::agree_on_scale() {
  LossScaler& scaler = *run_.scaler();
  const at::Tensor smallest = at::full({2}, scaler.scale(), at::kDouble);
  smallest[1].fill_(scaler.good_steps());
  team_.all_reduce(smallest, Reduce::kMin).wait(world_.limit());
  scaler.agree_on(smallest[0].item<double>(), smallest[1].item<std::int64_t>());
}

// Of the averaged parameters, where there are any; what is kept as the best is what was evaluated.
void Session::evaluate_epoch(int epoch) {
  Tally& tally = run_.tally();
  std::optional<Swapped> averaged;
  if (run_.settings().optimizer.ema) {
    strategy_->settle();  // an agreement may be at work on the average
    averaged.emplace(run_.model(), run_.optimizer().average());
  }
  {
    const TimedSpan span(world_.timeline(), Track::kEvaluation, "evaluation", epoch);
    const Task& task = run_.task();
    tally.score =
        task.loss || task.score
            ? evaluate(task, run_.device(), test_part_, team_, world_)
            : evaluate(run_.network(), run_.device(), test_part_, team_, world_);
  }
  if (run_.settings().keep_best) keep_if_best();
}

void Session::keep_if_best() {
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

// Steps and epochs are counted; minutes and signals are agreed on, since every rank has its own.
bool Session::checkpoint_due(const StepInfo& info) {
  const Request request = own_request();
  const Agreed agreed = control_.after_step(info.step, request, record_.step_seconds());
  record_.follow(agreed);
  if (agreed.request == Request::kStop) stopping_ = true;
  if (agreed.request != Request::kNothing) return true;
  const std::optional<Every>& every = run_.settings().checkpoint_every;
  if (!every) return false;
  const auto [number, unit] = *every;
  if (unit == Every::Unit::kSteps) return (info.step + 1) % number == 0;
  return unit == Every::Unit::kEpochs && info.batch == info.last && (info.epoch + 1) % number == 0;
}

Request Session::own_request() const {
  if (interrupted_ && interrupted_()) return Request::kStop;
  const std::optional<Every>& every = run_.settings().checkpoint_every;
  const bool by_the_clock = every && every->unit == Every::Unit::kMinutes;
  if (!by_the_clock || world_.rank() != 0) return Request::kNothing;
  const double minutes = since(last_checkpoint_).count() / 60;
  return minutes >= static_cast<double>(every->number) ? Request::kCheckpoint : Request::kNothing;
}

// The run, and what this session has to hand over with it.
RunState Session::state() {
  strategy_->settle();
  loss_watch_.flush();
  RunState state = run_.state();
  state.batches = plan_.batches;
  state.nodes = ranks_per_node(world_.topology());
  state.rank = world_.rank();
  add_section(state.own, "strategy.", strategy_->state());
  for (State* part : {&state.common, &state.own}) {
    for (auto& [name, tensor] : *part) tensor = tensor.cpu();
  }
  return state;
}

void Session::checkpoint() {
  saved_ = run_.place();
  const TimedSpan span(world_.timeline(), Track::kCheckpoint, "take", saved_.step);
  last_checkpoint_ = Clock::now();
  has_saved_ = true;
  checkpoints_.write(state());
}

void Session::settle() {
  record_.begin_turn();
  strategy_->settle();
  checkpoints_.settle();
  record_.end_turn();
}

Summary Session::finish() {
  return with_abandon(world_, [&] {
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
  });
}

void Session::leave() {
  checkpoints_.settle();
  run_.leave(state());
}

}  // namespace daso
