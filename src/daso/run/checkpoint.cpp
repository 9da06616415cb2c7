// SPDX-License-Identifier: Apache-2.0
#include "daso/run/checkpoint.h"

#include <ATen/core/Tensor.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "daso/base/disk.h"
#include "daso/base/error.h"
#include "daso/run/checkpoint_files.h"
#include "daso/tensor/safetensors.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

// "2 nodes with 1,2 ranks"
std::string text_of(const std::vector<int>& nodes) {
  return fmt::format("{} nodes with {} ranks", nodes.size(), fmt::join(nodes, ","));
}

State tensors_in(const fs::path& path, const Manifest::Part& part) {
  require(fs::exists(path), "{} is missing from its checkpoint", path.string());
  const auto bytes = static_cast<std::int64_t>(fs::file_size(path));
  require(bytes == part.bytes, "{} is damaged: it has {} bytes, its manifest says {}",
          path.string(), bytes, part.bytes);
  require(fmt::format("{:016x}", checksum_of_file(path)) == part.checksum,
          "{} is damaged: its checksum is not that of its manifest", path.string());
  return read_tensors(path).tensors;
}

}  // namespace

std::optional<fs::path> newest_checkpoint(const fs::path& folder, Seconds limit) {
  const std::vector<fs::path> all =
      Disk().within(limit, "looking for checkpoints in " + folder.string(),
                    [folder] { return complete_checkpoints(folder); });
  return all.empty() ? std::nullopt : std::optional(all.back());
}

Manifest read_manifest(const fs::path& checkpoint, Seconds limit) {
  return Disk().within(limit, "reading " + (checkpoint / kManifest).string(),
                       [checkpoint] { return manifest_in(checkpoint); });
}

State read_part(const fs::path& checkpoint, const Manifest& manifest, const std::string& name,
                Seconds limit) {
  const auto part = std::find_if(manifest.parts.begin(), manifest.parts.end(),
                                 [&](const auto& one) { return one.name == name; });
  require(part != manifest.parts.end(), "{} does not list {}", (checkpoint / kManifest).string(),
          name);
  const fs::path path = checkpoint / name;
  return Disk().within(limit + time_for(part->bytes), "reading " + path.string(),
                       [path, expected = *part] { return tensors_in(path, expected); });
}

State read_model(const fs::path& path, Seconds limit) {
  Disk disk;
  const std::string what = "reading " + path.string();
  const auto bytes = disk.within(limit, what, [path] {
    std::error_code problem;  // is told by who reads it
    const auto size = fs::file_size(path, problem);
    return problem ? 0 : static_cast<std::int64_t>(size);
  });
  return disk.within(limit + time_for(bytes), what, [path] { return read_tensors(path).tensors; });
}

RunState read_checkpoint(const fs::path& checkpoint, const World& world) {
  const Manifest manifest = read_manifest(checkpoint);
  const std::vector<int> nodes = ranks_per_node(world.topology());
  const bool same = manifest.nodes == nodes;
  require(same || manifest.place.batch == 0,
          "{} was written in the middle of epoch {} by {}, this run has {}; another number of "
          "ranks or nodes can only go on from the beginning of an epoch",
          checkpoint.string(), manifest.place.epoch + 1, text_of(manifest.nodes), text_of(nodes));
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
