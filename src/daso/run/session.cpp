// SPDX-License-Identifier: Apache-2.0
#include "daso/run/session.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "daso/comm/with_abandon.h"
#include "daso/exchange/hierarchical_mean.h"
#include "daso/nets/layers.h"
#include "daso/nets/network.h"
#include "daso/tensor/lane.h"

namespace daso {
namespace {

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

}  // namespace

Summary Session::train(const OnProgress& on_progress, const InterruptedBy& interrupted) {
  while (train_epoch(on_progress, interrupted)) {
  }
  return finish();
}

bool Session::train_epoch(const OnProgress& on_progress, InterruptedBy interrupted) {
  if (course_.over()) return false;
  return with_abandon(world_, [&] {
    const Threads threads(run_.settings().threads);
    const TrainingStream stream(run_.device());
    if (run_.task().module) draws_.emplace(run_.device());
    course_.begin_turn(std::move(interrupted));
    train_batches(on_progress);
    course_.end_turn();
    draws_.reset();
    return true;
  });
}

void Session::train_batches(const OnProgress& on_progress) {
  const RunPlace& place = run_.place();
  run_.network().train();
  if (place.batch == course_.plan().batches) {
    course_.go_on_at_end();
  } else {
    loader_.start(place.epoch, place.batch);
    feed_.start(loader_, course_.plan().batches - place.batch);
    do {
      const StepInfo info = course_.begin_step();
      train_batch(next_batch(info), info);
    } while (course_.after_step(on_progress));
  }
  if (course_.view_over() || !course_.epoch_is_done()) return;
  course_.end_epoch();
  course_.evaluate([this] { return score(); });
  course_.close_epoch(on_progress);
}

Batch Session::next_batch(const StepInfo& info) {
  const TimedSpan span(world_.timeline(), Track::kData, "data", info.step);
  return feed_.next();
}

void Session::train_batch(const Batch& batch, const StepInfo& info) {
  StepCalls calls{.draw = [&](int part) { draw_anew(info, part); },
                  .begin_backward = [&] { course_.begin_backward(); }};
  if (run_.scaler()) calls.loss_scale = run_.scaler()->scale();
  course_.average(compute_(batch, info.step, calls));
  course_.update();
  course_.end_step();
}

// What modules draw depends on the step, not on what was drawn before: a run that is resumed goes
// on with the same bits.
void Session::draw_anew(const StepInfo& info, int part) {
  const Settings& settings = run_.settings();
  if (settings.dropout > 0) {
    draw_dropout(run_.module(),
                 {.seed = settings.seed, .rank = world_.rank_id(), .step = info.step, .part = part});
  }
  if (draws_) {
    draws_->draw_by({settings.seed, kModuleDraws, static_cast<std::uint64_t>(world_.rank_id()),
                     static_cast<std::uint64_t>(info.step), static_cast<std::uint64_t>(part)});
  }
}

Score Session::score() {
  const Task& task = run_.task();
  NodeLink* const home = world_.views() == nullptr ? nullptr : &world_.node_link("scores");
  Score score;
  wait_for_nodes(home, world_.limit(), [&] {
    score = task.loss || task.score
                ? evaluate(task, feed_, test_part_, course_.team(), world_)
                : evaluate(run_.network(), feed_, test_part_, course_.team(), world_);
  });
  return score;
}

void Session::settle() { course_.settle(); }

Summary Session::finish() {
  return with_abandon(world_, [&] { return course_.finish(); });
}

void Session::leave() { course_.leave(); }

}  // namespace daso
