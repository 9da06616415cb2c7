// SPDX-License-Identifier: Apache-2.0
// What a session is made from: data that all ranks agree on.
#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "daso/base/checksum.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/gather_text.h"
#include "daso/nets/layers.h"
#include "daso/run/session.h"
#include "daso/run/views/deal.h"
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

Loader loader_for(World& world, Run& run) {
  const Settings& settings = run.settings();
  const DealSeat seat = take_seat(world, run);
  require(!run.task().own_loop, "a run with a loop of its own is trained by a Course (course.h)");
  check_batch_size(run, world);
  require_same_data(world, run);
  const std::shared_ptr<const Examples>& own = run.task().train;
  const LoaderOptions options{.shard = {.examples = own ? own->size() : run.data().train->size(),
                                        .ranks = seat.of,
                                        .batch_size = settings.batch_size * settings.accumulate,
                                        .uneven = settings.uneven,
                                        .seed = settings.seed},
                              .rank = seat.number,
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

}  // namespace

Session::Session(World& world, Run& run)
    : world_(world),
      run_(run),
      loader_(loader_for(world, run)),
      feed_(world, run.device()),
      course_([&] {
        const TrainingStream stream(run.device());  // under which it will see backward
        return Course(world, run, loader_.batches());
      }()),
      compute_(run.settings(), run.task(), run.network(), run.model(), world.timeline(),
               /*tells=*/world.rank() == 0),
      test_part_(test_part_for(course_.team(), run)) {}

Session::~Session() = default;

}  // namespace daso
