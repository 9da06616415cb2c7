// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>

#include "daso/base/checksum.h"
#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/gather_text.h"
#include "daso/nets/layers.h"
#include "daso/nets/network.h"
#include "daso/run/trainer_body.h"
#include "daso/tensor/bf16.h"
#include "daso/tensor/names.h"

namespace daso {
namespace {

constexpr int kEvaluationBatch = 256;

void require_trainable(const Network& network, const Settings& options) {
  const std::vector<at::Tensor> all = network.parameters();
  require(std::any_of(all.begin(), all.end(),
                      [](const at::Tensor& one) { return one.requires_grad(); }),
          "--freeze {} leaves nothing of model '{}' to train; leave some of its parameters out",
          fmt::join(options.freeze, ","), options.model);
}

// Whether BatchNorm sees one example at a time.
bool is_single_example(const Settings& options, const World& world) {
  const bool alone = world.topology().ranks_of(world.node()).size() == 1;
  return options.batch_size == 1 && (alone || !options.sync_batchnorm);
}

std::shared_ptr<Network> network_for(const Settings& options, const Dataset& data,
                                     const World& world) {
  // Ranks that are threads share LibTorch's generator.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  at::manual_seed(options.seed);
  const InputShape shape = data.shape();
  const NetworkOptions wanted{.name = options.model,
                              .text = shape.kind == InputKind::kText,
                              .channels = shape.channels,
                              .height = shape.height,
                              .width = shape.width,
                              .classes = data.classes(),
                              .transformer = transformer_sizes(options),
                              .dropout = options.dropout};
  auto network = make_network(wanted);
  if (is_single_example(options, world)) check_single_example(wanted);
  freeze(*network, options.freeze);
  require_trainable(*network, options);
  return network;
}

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

void require_same(World& world, const std::string& found) {
  const std::vector<std::string> all = gather_text(world.everyone(), found, world.limit());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    require(all[rank] == all[0],
            "--data is not the same on all ranks: rank 0 has {}; rank {} has {}; give all nodes "
            "the same files",
            all[0], rank, all[rank]);
  }
}

LoaderOptions loader_options(const Settings& options, const Datasets& data, World& world) {
  const Normalisation normalisation = normalisation_of(data.train);
  require_same(world, text_of(data, normalisation));
  return {.shard = {.examples = data.train->size(),
                    .ranks = world.size(),
                    .batch_size = options.batch_size * options.accumulate,
                    .uneven = options.uneven,
                    .seed = options.seed},
          .rank = world.rank(),
          .threads = options.loader_threads,
          .augment = options.augment,
          .normalisation = normalisation};
}

Settings checked(const Settings& options) {
  require(options.precision != Precision::kBf16 || !bf16_traps(),
          "bf16 might end this process by an illegal instruction: the processor advertises AMX, "
          "which {}; call cap_instruction_sets() at the beginning of main, or set {}={}",
          find_amx() == Amx::kTrapped ? "does not work here" : "nobody has tried here", kCap,
          kCappedTo);
  return options;
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

}  // namespace

Trainer::Body::Body(World& the_world, const Settings& the_options)
    : world(the_world),
      options(checked(the_options)),
      data(open_data(options.data, {.skip_bad_images = options.skip_bad_images})),
      network(network_for(options, *data.train, world)),
      model(network),
      optimizer(make_optimizer(model, optimizer_options(options))),
      loading(loader_options(options, data, world)),
      loader(data.train, loading),
      rate(rate_options(options, ranks_of_a_model(options, world.topology()), loader.batches())),
      run_plan(run_plan_of(options, ranks_of_a_model(options, world.topology()), loader.batches())),
      strategy(make_strategy(world, model, *optimizer,
                             strategy_options(options, run_plan, world.topology().nodes()))),
      team(team_of(world, options.strategy)),
      test_part(data.test, {.batch_size = kEvaluationBatch,
                            .rank = team.rank(),
                            .ranks = team.size(),
                            .threads = options.loader_threads,
                            .normalisation = loading.normalisation}),
      control(world),
      checkpoints(world, options.out / "checkpoints", options.keep),
      meter(world, *strategy,
            std::int64_t{options.batch_size} * options.accumulate * world.size()) {
  at::set_num_threads(options.threads);
  if (options.precision == Precision::kFp16) scaler.emplace();
  if (options.sync_batchnorm) share_batch_norm();
  if (options.trace) trace.emplace(world);  // before an exchange in flight is taken up
  if (options.resume) resume();
  // A run that goes on has no need of what it began with, which may be gone.
  if (!resumed && !options.init.empty()) begin_with(options.init);
}

// Rank 0's file is the one that counts; with `none` every rank has a model of its own.
void Trainer::Body::begin_with(const std::filesystem::path& file) {
  const bool apart = traits_of(options.strategy).ties == Reach::kRank;
  if (apart || world.rank() == 0) model.load(read_model(file));
  if (!apart) spread_model(world, model);
}

// In a group of its own: gradients travel at the same time.
void Trainer::Body::share_batch_norm() {
  Communicator& node = world.group(world.topology().ranks_of(world.node()),
                                   fmt::format("statistics of {}", world.node()));
  const int layers = share_statistics(*network, [this, &node](const at::Tensor& values) {
    const TimedSpan span(world.timeline(), Track::kCommunicating, "statistics", place.step);
    node.all_reduce(values, Reduce::kSum).wait(world.limit());
  });
  require(layers > 0, "--sync-batchnorm changes nothing here: model '{}' has no BatchNorm",
          options.model);
}

}  // namespace daso
