// SPDX-License-Identifier: Apache-2.0
#include "daso/run/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "daso/base/error.h"
#include "daso/base/text.h"
#include "daso/comm/gather_text.h"
#include "daso/comm/launcher_line.h"
#include "daso/comm/operation.h"
#include "daso/comm/views.h"
#include "daso/comm/worlds.h"
#include "daso/run/checkpoint_writer.h"
#include "daso/run/interrupt.h"
#include "daso/run/session.h"
#include "daso/run/train_output.h"
#include "daso/run/views/copy_receiver.h"
#include "daso/run/views/replay.h"
#include "daso/run/views/takeover.h"

namespace daso {

namespace {

// Trains in one world, to the run's end or to the world's (none).
std::optional<int> train_in(World& world, Run& run, const TrainOptions& options,
                            Interrupt& interrupt) {
  const Takeover takeover = takeover_in(world, run);
  if (takeover.lost) {
    fmt::print(stderr, "daso: all nodes that had the run are gone\n");
    return kExitPeer;
  }
  if (!takeover.any) prepare_output(world, run);
  Session session(world, run);
  std::optional<TrainOutput> output;  // rank 0's
  if (world.rank() == 0) {
    output.emplace(
        world, session.course(),
        OutputOptions{.lines = !options.json, .note = options.note, .go_on = options.go_on});
  }
  interrupt.begin();
  try {
    const auto tell = [&](const Progress& now) { (*output)(now); };
    while (session.train_epoch(tell, [&] { return interrupt.signal(); })) {
    }
    if (!session.view_over()) {
      Summary summary = session.finish();
      if (output) {
        output->end(summary);
        if (options.json) fmt::print("{}", text_of(summary));
        if (!options.replayed.empty()) {
          const std::string found = compare_replay(options.replayed, run.settings().out);
          if (!options.json) fmt::print("{}", found);
        }
      }
      interrupt.over();
      return options.replayed.empty() ? summary.exit : kExitOk;
    }
  } catch (const PeerError& error) {
    if (!world.view() || world.view()->replayed) throw;
    world.views()->trouble(error.what());  // to leave a view that goes on takes its end
  }
  if (world.view()->end) end_by_script(world, run);
  session.leave();
  if (output) output->leave();
  return std::nullopt;
}

// The run may go on elsewhere, so its own checkpoints are left alone. Nobody has the other nodes'
// part of this epoch, so it begins anew.
int save_apart(World& world, const Run& run) {
  const int id = world.view()->node_ids.front();
  const std::string node = fmt::format("node {} has lost the majority of the others", id);
  const std::optional<RunState>& left = run.left();
  const std::string place = left ? fmt::format("{} {}", left->place.epoch, left->place.batch) : "";
  const std::vector<std::string> places = gather_text(world.everyone(), place, world.limit());
  const bool together = std::ranges::count(places, place) == world.size();
  if (!left || !together) throw PeerError(node + ", and has nothing to save");
  RunState state = *left;
  state.nodes = ranks_per_node(world.topology());
  state.rank = world.rank();
  state.place = {.epoch = left->place.epoch, .step = left->place.epoch * left->batches};
  // What was in flight in the middle of the epoch is not at its beginning.
  std::erase_if(state.own, [](const auto& entry) {
    return entry.first.starts_with("strategy.cycle.put_off") ||
           entry.first.starts_with("strategy.exchange.");
  });
  if (const auto flying = state.own.find("strategy.cycle.in_flight"); flying != state.own.end()) {
    flying->second = integer(0);
  }
  const std::filesystem::path folder = run.settings().out / fmt::format("cut-off-node{}", id);
  const std::filesystem::path name = folder / checkpoint_name(state.place.step);
  CheckpointWriter writer(world, folder, run.settings().keep);
  writer.write(std::move(state));
  writer.finish();
  if (world.rank() == 0) {
    fmt::print(stderr, "daso: {}; what it has is saved, and --resume {} goes on from there\n", node,
               shell_word(name.string()));
  }
  return kExitPeer;
}

// None: this node has left the run.
World* next_of(Worlds& worlds) {
  try {
    return &worlds.next();
  } catch (const NodeLeft&) {
    return nullptr;
  }
}

}  // namespace

int train(World& world, Run& run, const TrainOptions& options) {
  std::optional<Interrupt> own_interrupt;
  if (options.interrupt == nullptr) own_interrupt.emplace();
  return *train_in(world, run, options, own_interrupt ? *own_interrupt : *options.interrupt);
}

int train(Worlds& worlds, const TrainOptions& options, const MakeRun& make) {
  if (!worlds.survives()) {
    World& world = worlds.next();
    const std::unique_ptr<Run> run = make(world);
    return train(world, *run, options);
  }
  // By itself, so that nobody waits for the data of one who comes later.
  World alone = World::alone();
  std::unique_ptr<Run> run = make(alone);
  run->receive(CopyReceiver::open(worlds, run->settings()));
  DASO_ASSERT(options.interrupt != nullptr);
  while (World* const world = worlds.over() ? nullptr : next_of(worlds)) {
    options.interrupt->begin();  // others count on us by now: who ends, ends in good order
    if (worlds.view().last) return save_apart(*world, *run);
    try {
      // On the same world as long as it holds: examples may be dealt anew.
      bool ends = false;
      for (std::optional<int> code; !ends && !world->guard().alarm->raised();) {
        code = train_in(*world, *run, options, *options.interrupt);
        if (code) return *code;
        const std::optional<ViewEnd>& end = world->view()->end;
        ends = end && has_come_to(run->place(), *end);
        if (ends && !end->left) run = make(alone);  // as the node that was lost
      }
    } catch (const PeerError&) {
      // A session that was being made leaves what the one before has left. One that could not leave
      // the run has half of something: this node is lost.
      if (run->in_session() || worlds.view().replayed) throw;
    }
  }
  return options.replayed.empty() ? run->settings().stopped_exit : kExitOk;
}

}  // namespace daso
