// SPDX-License-Identifier: Apache-2.0
#include "daso/run/checkpoint_writer.h"

#include <ATen/ATen.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "daso/base/error.h"
#include "daso/base/output_file.h"
#include "daso/base/paths.h"
#include "daso/base/text.h"
#include "daso/tensor/safetensors.h"

namespace daso {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::int64_t kMissing = -1;

// What people keep beside checkpoints, under other names, is theirs.
bool is_checkpoint(const std::string& name) {
  const std::optional<std::int64_t> step = parse_integer(name.substr(name.find('-') + 1));
  return step && checkpoint_name(*step) == name;
}

// How long a rank may take to write its parts.
Seconds limit_for(const RunState& state, const World& world) {
  std::int64_t bytes = 0;
  for (const State* part : {&state.common, &state.own}) {
    for (const auto& [name, tensor] : *part) bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return world.limit() + time_for(bytes);
}

}  // namespace

CheckpointWriter::CheckpointWriter(World& world, fs::path folder, int keep)
    : world_(world),
      folder_(std::move(folder)),
      keep_(keep),
      ranks_([&]() -> Communicator& {
        std::vector<int> ranks(static_cast<std::size_t>(world.size()));
        std::iota(ranks.begin(), ranks.end(), 0);
        return world.group(ranks, "checkpoints");
      }()),
      worker_("checkpoint") {}

CheckpointWriter::~CheckpointWriter() { disk_.give_up(); }

void CheckpointWriter::write(RunState state) {
  settle();
  broken_off_ = true;  // until it has come to its end
  worker_.post([this, shared = std::make_shared<const RunState>(std::move(state))] {
    write_all(shared);
    broken_off_ = false;
  });
}

void CheckpointWriter::settle() { worker_.wait(); }

void CheckpointWriter::finish() {
  settle();
  if (!failure_.empty()) throw Error(failure_);
}

void CheckpointWriter::write_all(const std::shared_ptr<const RunState>& state) {
  const std::int64_t step = state->place.step;
  const Span span(world_.timeline(), Track::kCheckpoint, "write", step);
  const fs::path folder = folder_ / checkpoint_name(step);
  const Seconds limit = limit_for(*state, world_);
  failure_.clear();
  // A rank that has failed stays in step with the others, and tells them.
  const auto attempt = [this](const auto& act) {
    if (!failure_.empty()) return;
    try {
      act();
    } catch (const std::exception& error) {
      failure_ = error.what();
    }
  };
  if (world_.rank() == 0) attempt([&] { remove(folder); });
  ranks_.barrier().wait(world_.limit());
  std::vector<Part> own;
  attempt([&] { write_own(state, limit, own); });
  // Longer than theirs, so that a rank whose disk hangs can say so.
  const std::vector<Part> parts = collect(own, limit + world_.limit());
  attempt([&] { require_all(parts, folder); });
  if (world_.rank() == 0) attempt([&] { publish(*state, parts); });
  if (failure_.empty()) {
    if (world_.rank() == 0) remove_old();
    return;
  }
  fmt::print(stderr, "daso: warning: rank {}: no checkpoint at step {}: {}\n", world_.rank(), step,
             failure_);
  take_back(folder, own);
}

// For what takes a healthy disk no time: a manifest, a removal. The others may wait for rank 0
// while it does up to three such things.
Seconds CheckpointWriter::quick_limit() const { return world_.limit() / 4; }

// A run that counts its steps anew may write where a checkpoint is. Nobody writes before that one
// is none any more: a kill must not leave its manifest with other parts.
void CheckpointWriter::remove(const fs::path& folder) {
  disk_.within(quick_limit(), "removing " + folder.string(), [folder] {
    std::error_code ignored;  // where it cannot be removed nothing can be written, either
    fs::remove(folder / kManifest, ignored);
    fs::remove_all(folder, ignored);
  });
}

void CheckpointWriter::write_own(const std::shared_ptr<const RunState>& state, Seconds limit,
                                 std::vector<Part>& own) {
  const fs::path folder = folder_ / checkpoint_name(state->place.step);
  const Deadline deadline(limit);
  const auto write_part = [&](const std::string& name, std::shared_ptr<const State> tensors) {
    const fs::path path = folder / name;
    const auto act = [name, path, tensors = std::move(tensors)] {
      make_folder(path.parent_path());
      write_tensors(path, *tensors);
      return Part{name, file_bytes(path), checksum_of_file(path)};
    };
    own.push_back(disk_.within(deadline.left(), "writing " + path.string(), act));
  };
  if (world_.local_rank() == 0) write_part(node_part(world_.node()), {state, &state->common});
  write_part(rank_part(world_.rank()), {state, &state->own});
}

// Its room is needed more than what is left of it.
void CheckpointWriter::take_back(const fs::path& folder, const std::vector<Part>& own) {
  const auto remove = [folder, own, first = world_.rank() == 0] {
    std::error_code ignored;
    if (first) fs::remove(folder / kManifest, ignored);
    for (const Part& part : own) fs::remove(folder / part.name, ignored);
    fs::remove(folder, ignored);
  };
  try {
    disk_.within(quick_limit(), "removing " + folder.string(), remove);
  } catch (const std::exception&) {
    // The disk hangs, and the failure has been told.
  }
}

// All ranks' parts, in the order of the ranks, those that are not there with kMissing bytes; the
// answer also says that all are on disk.
std::vector<CheckpointWriter::Part> CheckpointWriter::collect(const std::vector<Part>& own,
                                                              Seconds limit) {
  constexpr std::int64_t kNumbers = 4;  // bytes and checksum of the node's part and the rank's
  const at::Tensor mine = at::full({1, kNumbers}, kMissing, at::kLong);
  auto* numbers = mine.mutable_data_ptr<std::int64_t>();
  for (const Part& part : own) {
    const std::size_t place = part.name == rank_part(world_.rank()) ? 2 : 0;
    numbers[place] = part.bytes;
    numbers[place + 1] = static_cast<std::int64_t>(part.checksum);
  }
  const at::Tensor all = at::empty({world_.size(), kNumbers}, at::kLong);
  ranks_.all_gather(mine, all, limit).wait(limit);
  const auto rows = all.accessor<std::int64_t, 2>();
  std::vector<Part> parts;
  const Topology& topology = world_.topology();
  for (int rank = 0; rank < world_.size(); ++rank) {
    const auto part = [&](const std::string& name, int column) {
      parts.push_back(
          {name, rows[rank][column], static_cast<std::uint64_t>(rows[rank][column + 1])});
    };
    if (topology.local_rank_of(rank) == 0) part(node_part(topology.node_of(rank)), 0);
    part(rank_part(rank), 2);
  }
  return parts;
}

void CheckpointWriter::require_all(const std::vector<Part>& parts, const fs::path& folder) {
  for (const Part& part : parts) {
    if (part.bytes != kMissing) continue;
    throw Error(fmt::format("{} could not be written", (folder / part.name).string()));
  }
}

void CheckpointWriter::publish(const RunState& state, const std::vector<Part>& parts) {
  ordered_json manifest = {{"format", 1},
                           {"epoch", state.place.epoch},
                           {"batch", state.place.batch},
                           {"batches", state.batches},
                           {"step", state.place.step},
                           {"model", state.model},
                           {"strategy", state.strategy},
                           {"nodes", ranks_per_node(world_.topology())},
                           {"parts", ordered_json::array()}};
  for (const Part& part : parts) {
    manifest["parts"].push_back({{"name", part.name},
                                 {"bytes", part.bytes},
                                 {"checksum", fmt::format("{:016x}", part.checksum)}});
  }
  const fs::path path = folder_ / checkpoint_name(state.place.step) / kManifest;
  disk_.within(quick_limit(), "writing " + path.string(),
               [path, text = manifest.dump(2) + "\n"] { write_file(path, text); });
}

void CheckpointWriter::remove_old() {
  const auto remove = [folder = folder_, keep = static_cast<std::size_t>(keep_)] {
    const std::vector<fs::path> all = complete_checkpoints(folder);
    for (std::size_t i = 0; i + keep < all.size(); ++i) {
      // The manifest first: what is half removed must not look complete.
      remove_whole(all[i] / kManifest);
      remove_whole(all[i]);
    }
    // Nobody writes now: those without a manifest are of runs that were killed.
    for (const std::string& name : names_in(folder)) {
      if (is_checkpoint(name) && !is_there(folder / name / kManifest)) remove_whole(folder / name);
    }
  };
  try {
    disk_.within(quick_limit(), "removing old checkpoints of " + folder_.string(), remove);
  } catch (const std::exception& error) {
    fmt::print(stderr, "daso: warning: old checkpoints could not be removed: {}\n", error.what());
  }
}

}  // namespace daso
