// SPDX-License-Identifier: Apache-2.0
// What a course is made from: a plan, the strategy with its groups, and the state that it goes on
// with.
#include <ATen/ATen.h>

#include "daso/base/error.h"
#include "daso/comm/views.h"
#include "daso/nets/layers.h"
#include "daso/run/course.h"
#include "daso/run/initial_model.h"
#include "daso/run/resume.h"
#include "daso/run/settings_table.h"
#include "daso/strategy/parts.h"

namespace daso {
namespace {

// Before anything of it is touched.
Run& require_free(Run& run) {
  require(!run.in_session(),
          "another session has this run, or has ended by an error and not left it: make another "
          "Run, which goes on from a checkpoint with settings.resume");
  return run;
}

int model_ranks(const World& world, const Run& run) {
  const int now = ranks_of_a_model(run.settings(), world.topology());
  const bool all = now == world.size();
  return all && !run.deal().empty() ? run.deal().ranks() : now;
}

// What depends on the number of nodes stays as it is until the epoch ends.
int nodes_of(const World& world, const Run& run) {
  return run.deal().empty() ? world.topology().nodes() : run.deal().nodes;
}

StrategyOptions options_of(const Run& run, const RunPlan& plan, int nodes, bool begins) {
  StrategyOptions options = strategy_options(run.settings(), plan, nodes);
  options.spread = begins;
  const Task& task = run.task();
  if (!task.finite_gradients) options.finite_gradients = false;
  if (!task.schedule.empty()) {
    require(std::ssize(task.schedule) == plan.epochs,
            "a listed schedule names every epoch: {} for this run, got {}", plan.epochs,
            task.schedule.size());
    options.schedule = {.kind = ScheduleKind::kListed, .listed = task.schedule};
  }
  return options;
}

}  // namespace

Course::Course(World& world, Run& run, std::int64_t batches)
    : world_(world),
      run_(require_free(run)),
      rate_(rate_options(run.settings(), model_ranks(world, run), batches)),
      plan_(run_plan_of(run.settings(), model_ranks(world, run), batches)),
      takeover_(takeover_in(world, run)),
      strategy_(make_strategy(world, run.model(), run.optimizer(),
                              options_of(run, plan_, nodes_of(world, run), !takeover_.any))),
      team_(ranks_within(world, traits_of(run.settings().strategy).ties)),
      control_(world, takeover_.furthest.epoch * plan_.batches + takeover_.furthest.batch),
      checkpoints_(world, run.settings().out / "checkpoints", run.settings().keep),
      record_(world, run, *strategy_),  // its trace begins before an exchange is taken up
      lane_(open_lane(run.device())),
      loss_watch_(world.rank(), run.device().is_cpu() ? 0 : LossWatch::kDeviceLag, *lane_,
                  [&world](const std::function<bool()>& holds) {
                    world.wait_until(holds, "computing a step");
                  }) {
  const Settings& settings = run.settings();
  const std::optional<Resumption> resumption =
      takeover_.any ? std::nullopt : find_resumption(world, run);
  if (settings.sync_batchnorm) share_batch_norm();
  if (takeover_.any) {
    take_up();
  } else if (resumption) {
    go_on(*resumption);
  } else if (!settings.init.empty()) {
    begin_with(settings.init);
  }
  if (world.view()) {
    world.enter();
    enter_view();
    run.remember(record_of(world, takeover_, run.place()));
    keep_to_script();
  }
  run.enter();
}

Course::~Course() {
  if (run_.settings().sync_batchnorm) share_statistics(run_.module(), {});
}

void Course::enter_view() {
  std::int64_t before = takeover_.exchanges_before;
  if (!takeover_.any) {
    const State state = strategy_->state();  // of a checkpoint, or nothing
    if (state.contains("cycle.exchanges")) before = integer_in(state, "cycle.exchanges");
  }
  run_.exchanges_before(before);
  world_.views()->count_from(before);
  // In the job's first view nothing was put off, and a checkpoint's rests count.
  if (!takeover_.any) return;
  const StrategyEvents done = strategy_->enter_view(before + world_.view()->first_exchange);
  run_.tally().add(done);
  exchanged_ = exchanged_ || change_parameters(done);
  drop_copies_after(done);
  note(strategy_->take_undone());
  note(done);
  view_over_ = strategy_->view_ended();
}

// A replay leaves its views where the run did.
void Course::keep_to_script() {
  if (!world_.view() || !world_.view()->end) return;
  const ViewEnd& end = *world_.view()->end;
  if (!has_come_to(run_.place(), end)) return;
  (end.stops ? stopping_ : view_over_) = true;
}

// In the view that follows: what is this rank's own is still there.
void Course::take_up() {
  if (!takeover_.needy) adopt(*run_.left());
  if (!run_.copies().empty()) tell_copies();
  if (!takeover_.any_needy) return;
  RunState gift;
  if (world_.topology().node_of(takeover_.donor) == world_.node()) {
    const State strategy = strategy_->state_for_joiner();
    gift = run_.state();
    add_section(gift.own, "strategy.", strategy);
  }
  gift = give(world_, takeover_, run_, gift);
  if (!takeover_.needy) return;
  adopt(gift);
  equal_ = takeover_.donor_equal;
  // Where nodes differ the joiner begins with what they have in common.
  const auto anchor = gift.own.find("strategy.exchange.anchor");
  if (equal_ || anchor == gift.own.end()) return;
  const at::NoGradGuard no_grad;
  run_.model().parameters().copy_(anchor->second.flatten());
  exchanged_ = true;
}

void Course::adopt(const RunState& state) {
  run_.load(state);
  strategy_->load_state(section(state.own, "strategy."));
  RunPlace place = state.place;
  place.step = place.epoch * plan_.batches + place.batch;
  run_.move_to(place);
  equal_ = state.equal;
  resumed_ = place;
}

Settings Course::settings() const { return resolved(run_.settings(), plan_, world_.topology()); }

// Rank 0's file is the one that counts; with `none` every rank has a model of its own.
void Course::begin_with(const std::filesystem::path& file) {
  const bool apart = traits_of(run_.settings().strategy).ties == Reach::kRank;
  if (apart || world_.rank() == 0) {
    const InitialModel initial = initial_model(run_.model(), file, run_.settings().init_skip);
    begun_with_ = text_of(initial, file);
    try {
      run_.model().load(initial.tensors);
    } catch (const ConfigError& error) {
      throw ConfigError(fmt::format(
          "{}: {}; --init-skip NAME,... leaves out what does not fit, by the beginnings "
          "of names",
          begun_with_, error.what()));
    }
  }
  if (!apart) spread_model(world_, run_.model());
}

// In a group of its own: gradients travel at the same time.
void Course::share_batch_norm() {
  Communicator& node = world_.group(world_.topology().ranks_of(world_.node()),
                                    fmt::format("statistics of {}", world_.node()));
  const int layers = share_statistics(run_.module(), [this, &node](const at::Tensor& values) {
    const TimedSpan span(world_.timeline(), Track::kStatistics, "statistics", run_.place().step);
    node.all_reduce(values, Reduce::kSum).wait(world_.limit());
  });
  require(layers > 0, "--sync-batchnorm changes nothing here: model '{}' has no BatchNorm{}",
          run_.settings().model,
          run_.task().module ? " of daso/nets/layers.h, which can share its statistics" : "");
}

void Course::go_on(const Resumption& from) {
  require_fit(from, run_, plan_, world_);
  const RunState& state = from.state;
  try {
    run_.load(state);
    if (has_same_strategy(state, run_.settings())) {
      strategy_->load_state(section(state.own, "strategy."));
    }
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format(
        "{} does not fit this run, which has {}: {}; go on with the flags that it was written with",
        from.from, flags_of_state(run_.settings()), error.what()));
  }
  RunPlace place = state.place;
  place.step = place.epoch * plan_.batches + place.batch;
  run_.move_to(place);
  if (from.newest) saved_ = place;
  resumed_ = place;
}

}  // namespace daso
