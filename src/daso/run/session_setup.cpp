// SPDX-License-Identifier: Apache-2.0
// What a session is made from: data that all ranks agree on, a plan, the groups, and the state that
// it goes on with.
#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include "daso/base/checksum.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/gather_text.h"
#include "daso/nets/layers.h"
#include "daso/nets/network.h"
#include "daso/run/initial_model.h"
#include "daso/run/resume.h"
#include "daso/run/session.h"
#include "daso/run/settings_table.h"
#include "daso/tensor/lane.h"

namespace daso {
namespace {

constexpr int kEvaluationBatch = 256;

// A checksum of what the classes are called, or what the tokens of a text stand for.
std::uint64_t meaning_of_classes(const Dataset& data) {
  if (data.shape().kind == InputKind::kText) {
    const std::vector<std::int64_t> vocabulary = as_text(data).vocabulary();
    return checksum_of(std::as_bytes(std::span(vocabulary)));
  }
  const std::string names = join(as_images(data).class_names(), "/");
  return checksum_of(std::as_bytes(std::span(names)));
}

// What all ranks must agree on: examples are dealt out by their numbers, and an epoch has as many
// steps on every rank.
std::string text_of(const Datasets& data, const Normalisation& normalisation) {
  return fmt::format(
      "{} examples to train with and {} to test with, of {} and {} classes (checksum {:016x}), "
      "mean "
      "{}, deviation {}",
      data.train->size(), data.test->size(), text_of(data.train->shape()), data.train->classes(),
      meaning_of_classes(*data.train), fmt::join(normalisation.mean, " "),
      fmt::join(normalisation.deviation, " "));
}

std::string text_of(const Task& task) {
  return fmt::format("{} examples to train with ({}) and {} to test with ({})", task.train->size(),
                     task.train->description(), task.test->size(), task.test->description());
}

void require_same_data(World& world, const Run& run) {
  const bool own = run.task().train != nullptr;
  const std::vector<std::string> all = gather_text(
      world.everyone(), own ? text_of(run.task()) : text_of(run.data(), run.normalisation()),
      world.limit());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    require(all[rank] == all[0],
            "{} not the same on all ranks: rank 0 has {}; rank {} has {}; give all {}",
            own ? "the task's examples are" : "--data is", all[0], rank, all[rank],
            own ? "ranks the same, which they share out themselves" : "nodes the same files");
  }
}

// BatchNorm may see one example at a time.
void check_batch_size(const Run& run, const World& world) {
  const Settings& settings = run.settings();
  const bool alone = world.topology().ranks_of(world.node()).size() == 1;
  if (settings.batch_size > 1 || (settings.sync_batchnorm && !alone)) return;
  if (run.task().module) return;  // of which nothing is known
  const InputShape shape = run.data().train->shape();
  check_single_example({.name = settings.model, .height = shape.height, .width = shape.width});
}

Loader loader_for(World& world, const Run& run) {
  const Settings& settings = run.settings();
  check_batch_size(run, world);
  require_same_data(world, run);
  const std::shared_ptr<const Examples>& own = run.task().train;
  const LoaderOptions options{.shard = {.examples = own ? own->size() : run.data().train->size(),
                                        .ranks = world.size(),
                                        .batch_size = settings.batch_size * settings.accumulate,
                                        .uneven = settings.uneven,
                                        .seed = settings.seed},
                              .rank = world.rank(),
                              .threads = settings.loader_threads,
                              .augment = settings.augment,
                              .normalisation = run.normalisation(),
                              .pinned = !run.device().is_cpu(),
                              .raw = !run.device().is_cpu()};
  return own ? Loader(own, options) : Loader(run.data().train, options);
}

EvaluationLoader test_part_for(const Communicator& team, const Run& run) {
  const EvaluationOptions options{.batch_size = kEvaluationBatch,
                                  .rank = team.rank(),
                                  .ranks = team.size(),
                                  .threads = run.settings().loader_threads,
                                  .normalisation = run.normalisation(),
                                  .pinned = !run.device().is_cpu(),
                                  .raw = !run.device().is_cpu()};
  const std::shared_ptr<const Examples>& own = run.task().test;
  return own ? EvaluationLoader(own, options) : EvaluationLoader(run.data().test, options);
}

// The ranks that train one model together: they are evaluated together.
Communicator& team_of(World& world, const std::string& strategy) {
  switch (traits_of(strategy).ties) {
    case Reach::kRank:
      return world.group({world.rank()}, fmt::format("rank {}", world.rank()));
    case Reach::kNode:
      return world.node_group();
    case Reach::kWorld:
      break;
  }
  return world.everyone();
}

// Before anything of it is touched.
Run& require_free(Run& run) {
  require(!run.in_session(),
          "another session has this run, or has ended by an error and not left it: make another "
          "Run, which goes on from a checkpoint with settings.resume");
  return run;
}

int model_ranks(const World& world, const Run& run) {
  return ranks_of_a_model(run.settings(), world.topology());
}

}  // namespace

Session::Session(World& world, Run& run)
    : world_(world),
      run_(require_free(run)),
      loader_(loader_for(world, run)),
      feed_(world, run.device()),
      rate_(rate_options(run.settings(), model_ranks(world, run), loader_.batches())),
      plan_(run_plan_of(run.settings(), model_ranks(world, run), loader_.batches())),
      strategy_([&] {
        const int nodes = world.topology().nodes();
        const TrainingStream stream(run.device());  // under which it will see backward
        return make_strategy(world, run.model(), run.optimizer(),
                             strategy_options(run.settings(), plan_, nodes));
      }()),
      compute_(run.settings(), run.task(), run.network(), run.model(), world.timeline(),
               /*tells=*/world.rank() == 0),
      team_(team_of(world, run.settings().strategy)),
      test_part_(test_part_for(team_, run)),
      control_(world),
      checkpoints_(world, run.settings().out / "checkpoints", run.settings().keep),
      record_(world, run, *strategy_),  // its trace begins before an exchange is taken up
      loss_watch_(world.rank(), run.device().is_cpu() ? 0 : LossWatch::kDeviceLag,
                  [&world](const std::function<bool()>& holds) {
                    world.wait_until(holds, "computing a step");
                  }) {
  const Settings& settings = run.settings();
  const std::optional<Resumption> resumption = find_resumption(world, run);
  if (settings.sync_batchnorm) share_batch_norm();
  if (resumption) {
    go_on(*resumption);
  } else if (!settings.init.empty()) {
    begin_with(settings.init);
  }
  run.enter();
}

Session::~Session() {
  if (run_.settings().sync_batchnorm) share_statistics(run_.module(), {});
}

Settings Session::settings() const { return resolved(run_.settings(), plan_, world_.topology()); }

// Rank 0's file is the one that counts; with `none` every rank has a model of its own.
void Session::begin_with(const std::filesystem::path& file) {
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
void Session::share_batch_norm() {
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

void Session::go_on(const Resumption& from) {
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
