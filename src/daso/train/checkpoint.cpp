// SPDX-License-Identifier: Apache-2.0
#include "daso/train/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <tuple>

#include "daso/base/checksum.h"
#include "daso/base/draft_file.h"
#include "daso/base/error.h"
#include "daso/model/safetensors.h"

namespace daso {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr const char* kManifest = "manifest.json";
constexpr std::int64_t kMissing = -1;

std::string folder_name(std::int64_t step) { return fmt::format("step-{:09}", step); }
std::string node_part(int node) { return fmt::format("node-{}.safetensors", node); }
std::string rank_part(int rank) { return fmt::format("rank-{}.safetensors", rank); }

std::vector<int> ranks_per_node(const Topology& topology) {
  std::vector<int> nodes;
  for (int node = 0; node < topology.nodes(); ++node) {
    nodes.push_back(static_cast<int>(topology.ranks_of(node).size()));
  }
  return nodes;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  require(file.good() || file.eof(), "{} cannot be read: {}", path.string(), std::strerror(errno));
  return text;
}

std::uint64_t checksum_of_file(const fs::path& path) {
  const std::string text = read_file(path);
  return checksum_of(std::as_bytes(std::span(text)));
}

// What people keep beside checkpoints, under other names, is theirs.
bool is_folder_name(const std::string& name) {
  constexpr std::string_view kBegin = "step-";
  return name.size() > kBegin.size() && name.starts_with(kBegin) &&
         name.find_first_not_of("0123456789", kBegin.size()) == std::string::npos;
}

// In the order of the run. Their names do not tell it: a run that has gone on with other ranks, or
// another batch size, counts its steps anew.
std::vector<fs::path> complete_checkpoints(const fs::path& folder) {
  std::vector<std::tuple<int, std::int64_t, fs::path>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    if (!is_folder_name(path.filename().string()) || !fs::exists(path / kManifest)) continue;
    const RunPlace place = read_manifest(path).place;
    found.emplace_back(place.epoch, place.batch, path);
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (const auto& [epoch, batch, path] : found) paths.push_back(path);
  return paths;
}

// A disk that takes less in a second is not slow, it hangs.
constexpr double kSlowestBytes = 1e6;

// How long a rank may take to write its parts.
Seconds limit_for(const RunState& state, const World& world) {
  double bytes = 0;
  for (const State* part : {&state.common, &state.own}) {
    for (const auto& [name, tensor] : *part) bytes += static_cast<double>(tensor.nbytes());
  }
  return world.limit() + Seconds(bytes / kSlowestBytes);
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
  worker_.wait();
  worker_.post(
      [this, shared = std::make_shared<const RunState>(std::move(state))] { write_all(shared); });
}

void CheckpointWriter::finish() {
  worker_.wait();
  if (!failure_.empty()) throw Error(failure_);
}

void CheckpointWriter::write_all(const std::shared_ptr<const RunState>& state) {
  const std::int64_t step = state->place.step;
  const Span span(world_.timeline(), Track::kCheckpoint, "write", step);
  const fs::path folder = folder_ / folder_name(step);
  const Seconds limit = limit_for(*state, world_);
  failure_.clear();
  begin(folder);
  std::vector<Part> own;
  try {
    if (failure_.empty()) write_own(state, limit, own);
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  // Longer than theirs, so that a rank whose disk hangs can say so.
  const std::vector<Part> parts = collect(own, limit + world_.limit());
  const auto missing = std::find_if(parts.begin(), parts.end(),
                                    [](const Part& part) { return part.bytes == kMissing; });
  if (missing != parts.end() && failure_.empty()) {
    failure_ = fmt::format("{} could not be written", (folder / missing->name).string());
  }
  try {
    if (world_.rank() == 0 && failure_.empty()) publish(*state, parts);
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  if (failure_.empty()) {
    if (world_.rank() == 0) remove_old();
    return;
  }
  fmt::print(stderr, "daso: warning: rank {}: no checkpoint at step {}: {}\n", world_.rank(), step,
             failure_);
  take_back(folder, own);
}

// For what takes a healthy disk no time: meanwhile the other ranks may wait for this one.
Seconds CheckpointWriter::moment() const { return world_.limit() / 2; }

// A run that counts its steps anew may write where a checkpoint is. Nobody writes before that one
// is none any more: a kill must not leave its manifest with other parts.
void CheckpointWriter::begin(const fs::path& folder) {
  const auto remove = [folder] {
    std::error_code ignored;  // where it cannot be removed nothing can be written, either
    fs::remove(folder / kManifest, ignored);
    fs::remove_all(folder, ignored);
  };
  try {
    if (world_.rank() == 0) disk_.within(moment(), "removing " + folder.string(), remove);
  } catch (const std::exception& error) {
    failure_ = error.what();
  }
  ranks_.barrier().wait(world_.limit());
}

void CheckpointWriter::write_own(const std::shared_ptr<const RunState>& state, Seconds limit,
                                 std::vector<Part>& own) {
  const fs::path folder = folder_ / folder_name(state->place.step);
  const Deadline deadline(limit);
  const auto write_part = [&](const std::string& name, std::shared_ptr<const State> tensors) {
    const fs::path path = folder / name;
    const auto act = [name, path, tensors = std::move(tensors)] {
      fs::create_directories(path.parent_path());
      write_tensors(path, *tensors);
      return Part{name, static_cast<std::int64_t>(fs::file_size(path)), checksum_of_file(path)};
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
    disk_.within(moment(), "removing " + folder.string(), remove);
  } catch (const std::exception&) {
    // The disk hangs, and the failure has been told.
  }
}

// All ranks' parts, in the order of the ranks, those that are not there with kMissing bytes; also
// the moment when all are on disk.
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

void CheckpointWriter::publish(const RunState& state, const std::vector<Part>& parts) {
  json manifest = {{"format", 1},
                   {"epoch", state.place.epoch},
                   {"batch", state.place.batch},
                   {"batches", state.batches},
                   {"step", state.place.step},
                   {"model", state.model},
                   {"strategy", state.strategy},
                   {"nodes", ranks_per_node(world_.topology())},
                   {"parts", json::array()}};
  for (const Part& part : parts) {
    manifest["parts"].push_back({{"name", part.name},
                                 {"bytes", part.bytes},
                                 {"checksum", fmt::format("{:016x}", part.checksum)}});
  }
  const fs::path path = folder_ / folder_name(state.place.step) / kManifest;
  disk_.within(moment(), "writing " + path.string(), [path, text = manifest.dump(2) + "\n"] {
    DraftFile file(path);
    file.write(std::as_bytes(std::span(text)));
    file.publish();
  });
}

void CheckpointWriter::remove_old() {
  const auto remove = [folder = folder_, keep = static_cast<std::size_t>(keep_)] {
    const std::vector<fs::path> all = complete_checkpoints(folder);
    for (std::size_t i = 0; i + keep < all.size(); ++i) {
      // The manifest first: what is half removed must not look complete.
      fs::remove(all[i] / kManifest);
      fs::remove_all(all[i]);
    }
  };
  try {
    disk_.within(moment(), "removing old checkpoints of " + folder_.string(), remove);
  } catch (const std::exception& error) {
    fmt::print(stderr, "daso: warning: old checkpoints could not be removed: {}\n", error.what());
  }
}

std::optional<fs::path> newest_checkpoint(const fs::path& folder) {
  const std::vector<fs::path> all = complete_checkpoints(folder);
  return all.empty() ? std::nullopt : std::optional(all.back());
}

Manifest read_manifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifest;
  require(fs::exists(path), "{} is no complete checkpoint: it has no {}", checkpoint.string(),
          kManifest);
  try {
    const json found = json::parse(read_file(path));
    require(found.at("format") == 1, "{} has format {}, this program knows format 1", path.string(),
            found.at("format").dump());
    Manifest manifest{
        .place = {.epoch = found.at("epoch"), .batch = found.at("batch"), .step = found.at("step")},
        .batches = found.value("batches", std::int64_t{0}),
        .model = found.at("model"),
        .strategy = found.value("strategy", ""),
        .nodes = found.at("nodes")};
    const RunPlace& place = manifest.place;
    require(place.epoch >= 0 && place.batch >= 0 && place.step >= 0 && manifest.batches >= 0,
            "{} is damaged: epoch {}, batch {} of {}, step {}", path.string(), place.epoch,
            place.batch, manifest.batches, place.step);
    for (const json& part : found.at("parts")) {
      manifest.parts.push_back({part.at("name"), part.at("bytes"), part.at("checksum")});
    }
    return manifest;
  } catch (const json::exception& error) {
    throw ConfigError(fmt::format("{} is damaged: {}", path.string(), error.what()));
  }
}

State read_part(const fs::path& checkpoint, const Manifest& manifest, const std::string& name) {
  const fs::path path = checkpoint / name;
  const auto part = std::find_if(manifest.parts.begin(), manifest.parts.end(),
                                 [&](const auto& one) { return one.name == name; });
  require(part != manifest.parts.end(), "{} does not list {}", (checkpoint / kManifest).string(),
          name);
  require(fs::exists(path), "{} is missing from its checkpoint", path.string());
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path));
  require(bytes == part->bytes, "{} is damaged: it has {} bytes, its manifest says {}",
          path.string(), bytes, part->bytes);
  require(fmt::format("{:016x}", checksum_of_file(path)) == part->checksum,
          "{} is damaged: its checksum is not that of its manifest", path.string());
  return read_tensors(path).tensors;
}

RunState read_checkpoint(const fs::path& checkpoint, const World& world) {
  const Manifest manifest = read_manifest(checkpoint);
  const bool same = manifest.nodes == ranks_per_node(world.topology());
  require(same || manifest.place.batch == 0,
          "{} was written in the middle of epoch {} by {} nodes, this run has {}; another number "
          "of ranks or nodes can only go on from the beginning of an epoch",
          checkpoint.string(), manifest.place.epoch, manifest.nodes.size(),
          world.topology().nodes());
  RunState state{.place = manifest.place,
                 .batches = manifest.batches,
                 .model = manifest.model,
                 .strategy = manifest.strategy,
                 .other_ranks = !same,
                 .common = read_part(checkpoint, manifest, node_part(same ? world.node() : 0)),
                 .own = read_part(checkpoint, manifest, rank_part(same ? world.rank() : 0))};
  if (!same) {
    std::erase_if(state.own,
                  [](const auto& entry) { return entry.first.starts_with("strategy.exchange."); });
  }
  return state;
}

}  // namespace daso
