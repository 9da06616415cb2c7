// SPDX-License-Identifier: Apache-2.0
#include "daso/run/resume.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/gather_text.h"
#include "daso/run/views/takeover.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

// "2 nodes with 1,2 ranks"
std::string text_of(const std::vector<int>& nodes) {
  return fmt::format("{} nodes with {} ranks", nodes.size(), fmt::join(nodes, ","));
}

std::string flags_of(const TransformerSizes& sizes) {
  return fmt::format("--layers {} --embedding {} --heads {}", sizes.layers, sizes.embedding,
                     sizes.heads);
}

// The same numbers mean something else with other inputs, though all shapes fit.
void require_same_input(const std::string& from, const ModelInput& trained, const std::string& data,
                        const ModelInput& here) {
  require(trained.vocabulary == here.vocabulary,
          "{} was trained on a text of other tokens than --data {}: a text must have the same "
          "vocabulary; tokens=bytes fits every text",
          from, data);
  require_same_classes(from, trained, data, here.class_names);
  require(trained.transformer == here.transformer,
          "{} was trained with {}, this run has {}: go on with those that it was trained with",
          from, flags_of(trained.transformer), flags_of(here.transformer));
}

// The checkpoint to go on from; none: the run has not got that far. Ranks that went on from
// different places would average what does not belong together, and what is written from here on
// must be the newest.
std::optional<fs::path> chosen_checkpoint(World& world, const Settings& settings) {
  const auto newest = newest_checkpoint(settings.out / "checkpoints");
  auto chosen = settings.resume_from.empty() ? newest : std::optional(settings.resume_from);
  const std::vector<std::string> choices =
      gather_text(world.everyone(), chosen ? chosen->string() : "none", world.limit());
  for (std::size_t rank = 1; rank < choices.size(); ++rank) {
    require(choices[rank] == choices[0],
            "rank 0 would go on from checkpoint {}, rank {} from {}: --out must be a folder that "
            "all nodes share",
            choices[0], rank, choices[rank]);
  }
  if (chosen && newest) {
    const RunPlace from = read_manifest(*chosen).place;
    const RunPlace last = read_manifest(*newest).place;
    require(std::tie(last.epoch, last.batch) <= std::tie(from.epoch, from.batch),
            "{} is later than {}: give another --out to go on from there, or move it away",
            newest->string(), chosen->string());
  }
  return chosen;
}

std::optional<Resumption> from_checkpoint(World& world, const Settings& settings) {
  const std::optional<fs::path> folder = chosen_checkpoint(world, settings);
  if (!folder) return std::nullopt;
  Resumption found{.state = read_checkpoint(*folder, world), .from = folder->string()};
  found.other_ranks = found.state.nodes != ranks_per_node(world.topology());
  // Another run's checkpoint is not this one's newest. All decide alike: whether the last place is
  // to be saved is everybody's business.
  std::error_code problem;  // a folder that is not there yet
  const bool ours = fs::equivalent(*folder / "..", settings.out / "checkpoints", problem);
  const std::string own = ours ? "ours" : "another's";
  found.newest = gather_text(world.everyone(), own, world.limit()).front() == "ours";
  return found;
}

// Of what a session has left: where, and whose it is.
std::string text_of(const RunPlace& place, const std::vector<int>& nodes, int rank) {
  return fmt::format("epoch {} batch {} on {}, rank {}", place.epoch, place.batch, text_of(nodes),
                     rank);
}

// What rank 0 has left, for ranks that are others, or stand elsewhere, than those that left it.
RunState left_by_first(World& world, const std::optional<RunState>& own) {
  RunState state;
  State numbers;
  if (world.rank() == 0) {
    state = *own;
    numbers = {
        {"epoch", integer(state.place.epoch)},
        {"batch", integer(state.place.batch)},
        {"batches", integer(state.batches)},
        {"nodes",
         at::tensor(std::vector<std::int64_t>(state.nodes.begin(), state.nodes.end()), at::kLong)}};
  }
  const auto from_first = [&](const State& part) {
    return spread(world.everyone(), 0, part, world.limit());
  };
  numbers = from_first(numbers);
  state.place.epoch = static_cast<int>(integer_in(numbers, "epoch"));
  state.place.batch = integer_in(numbers, "batch");
  state.batches = integer_in(numbers, "batches");
  const at::Tensor nodes = tensor_in(numbers, "nodes");
  const auto* first = nodes.const_data_ptr<std::int64_t>();
  state.nodes.assign(first, first + nodes.numel());
  state.common = from_first(state.common);
  state.own = from_first(state.own);
  return state;
}

// None: no session has left anything.
std::optional<Resumption> from_memory(World& world, const Run& run) {
  const std::optional<RunState>& own = run.left();
  constexpr const char* kNothing = "nothing";
  const std::vector<std::string> all = gather_text(
      world.everyone(), own ? text_of(own->place, own->nodes, own->rank) : kNothing, world.limit());
  if (std::all_of(all.begin(), all.end(), [&](const auto& one) { return one == kNothing; })) {
    return std::nullopt;
  }
  require(all[0] != kNothing,
          "rank 0 of a world with {} ranks has no part of the run that others have: number the "
          "ranks so that one of those is the first",
          world.size());
  // Every rank where it was, in a world of the same nodes: each has all that it needs.
  const std::vector<int> nodes = ranks_per_node(world.topology());
  bool same = true;
  const std::string place = all[0].substr(0, all[0].find(" on "));
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string expected = fmt::format("{} on {}, rank {}", place, text_of(nodes), rank);
    same = same && all[static_cast<std::size_t>(rank)] == expected;
  }
  Resumption found{.state = same ? *own : left_by_first(world, own),
                   .from = "the run in memory",
                   .other_ranks = !same};
  found.state.model = run.settings().model;
  found.state.strategy = run.settings().strategy;
  return found;
}

}  // namespace

std::optional<Resumption> find_resumption(World& world, const Run& run) {
  std::optional<Resumption> found = from_memory(world, run);
  if (!found && run.settings().resume) found = from_checkpoint(world, run.settings());
  if (found && found->other_ranks) {
    // Their exchanges are not those of these ranks; from an epoch's beginning none is in flight.
    std::erase_if(found->state.own,
                  [](const auto& entry) { return entry.first.starts_with("strategy.exchange."); });
  }
  return found;
}

void require_fit(const Resumption& resumption, const Run& run, const RunPlan& plan,
                 const World& world) {
  const Settings& settings = run.settings();
  const RunState& state = resumption.state;
  const std::string& from = resumption.from;
  const bool from_the_beginning = state.place.batch == 0;  // of an epoch
  require(!resumption.other_ranks || from_the_beginning,
          "{} was written in the middle of epoch {} by {}, this run has {}; another number of "
          "ranks or nodes can only go on from the beginning of an epoch",
          from, state.place.epoch + 1, text_of(state.nodes),
          text_of(ranks_per_node(world.topology())));
  require(state.model == settings.model, "{} is of a {}, this run has --model {}", from,
          state.model, settings.model);
  if (run.data().train) {
    require_same_input(from, input_in(section(state.common, "input.")), settings.data, run.input());
  }
  const std::int64_t batches = state.batches > 0 ? state.batches : plan.batches;
  require(from_the_beginning || (batches == plan.batches && state.place.batch < plan.batches),
          "{} was written after step {} of {} of its epoch, and here an epoch has {} steps: batch "
          "size, data and ranks can only change at the beginning of an epoch",
          from, state.place.batch, batches, plan.batches);
  require(has_same_strategy(state, settings) ||
              (from_the_beginning && traits_of(state.strategy).equal_after_epoch),
          "{} was written by --strategy {}, this run has {}: another strategy can only go on from "
          "the beginning of an epoch of sync, local or daso, when all nodes are equal",
          from, state.strategy, settings.strategy);
  if (!resumption.other_ranks) return;
  require(state.strategy.empty() || traits_of(state.strategy).equal_after_epoch,
          "{} was written by --strategy {} on another number of ranks or nodes, whose models "
          "differ: go on with as many as it had",
          from, state.strategy);
  if (world.rank() != 0) return;
  fmt::print(stderr,
             "daso: warning: {} was written by another number of ranks or nodes; going on with "
             "{} ranks on {} nodes from the beginning of epoch {}\n",
             from, world.size(), world.topology().nodes(), state.place.epoch + 1);
}

bool has_same_strategy(const RunState& state, const Settings& settings) {
  return state.strategy.empty() || state.strategy == settings.strategy;
}

}  // namespace daso
