// SPDX-License-Identifier: Apache-2.0
#include "daso/run/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <tuple>

#include "daso/base/checked_json.h"
#include "daso/base/checksum.h"
#include "daso/base/disk.h"
#include "daso/base/error.h"
#include "daso/base/paths.h"
#include "daso/tensor/pytorch_file.h"
#include "daso/tensor/safetensors.h"

namespace daso {
namespace {

namespace fs = std::filesystem;

// What people keep beside checkpoints, under other names, is theirs.
bool is_folder_name(const std::string& name) {
  constexpr std::string_view kBegin = "step-";
  return name.size() > kBegin.size() && name.starts_with(kBegin) &&
         name.find_first_not_of("0123456789", kBegin.size()) == std::string::npos;
}

// Whether batch and step are such as a run can have at its epoch.
bool is_possible(const RunPlace& place, std::int64_t batches) {
  std::int64_t step = 0;
  return batches == 0 ||  // an older checkpoint does not say
         (place.batch <= batches && !__builtin_mul_overflow(place.epoch, batches, &step) &&
          !__builtin_add_overflow(step, place.batch, &step) && step == place.step);
}

Manifest manifest_in(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifest;
  require(is_there(path), "{} is no complete checkpoint: it has no {}", checkpoint.string(),
          kManifest);
  const nlohmann::json document = read_json(path);
  const CheckedJson found(document, path.string());
  const std::int64_t format = found.at("format").integer(0);
  require(format == 1, "{} has format {}, this program knows format 1", path.string(), format);
  Manifest manifest{.place = {.epoch = found.at("epoch").count(0),
                              .batch = found.at("batch").integer(0),
                              .step = found.at("step").integer(0)},
                    .batches = found.has("batches") ? found.at("batches").integer(0) : 0,
                    .model = found.at("model").text(),
                    .strategy = found.has("strategy") ? found.at("strategy").text() : "",
                    .nodes = found.at("nodes").integers({}, /*at_least=*/1)};
  const RunPlace& place = manifest.place;
  require(is_possible(place, manifest.batches),
          "{} is damaged: step {} is not that of batch {} of {} in epoch {}", path.string(),
          place.step, place.batch, manifest.batches, place.epoch);
  for (const CheckedJson& part : found.at("parts").list()) {
    manifest.parts.push_back(
        {part.at("name").text(), part.at("bytes").integer(0), part.at("checksum").text()});
  }
  return manifest;
}

State tensors_in(const fs::path& path, const Manifest::Part& part) {
  require(is_there(path), "{} is missing from its checkpoint", path.string());
  const std::int64_t bytes = file_bytes(path);
  require(bytes == part.bytes, "{} is damaged: it has {} bytes, its manifest says {}",
          path.string(), bytes, part.bytes);
  require(fmt::format("{:016x}", checksum_of_file(path)) == part.checksum,
          "{} is damaged: its checksum is not that of its manifest", path.string());
  return read_tensors(path).tensors;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:09}", step); }
std::string node_part(int node) { return fmt::format("node-{}.safetensors", node); }
std::string rank_part(int rank) { return fmt::format("rank-{}.safetensors", rank); }

std::vector<int> ranks_per_node(const Topology& topology) {
  std::vector<int> nodes;
  nodes.reserve(static_cast<std::size_t>(topology.nodes()));
  for (int node = 0; node < topology.nodes(); ++node) {
    nodes.push_back(static_cast<int>(topology.ranks_of(node).size()));
  }
  return nodes;
}

std::uint64_t checksum_of_file(const fs::path& path) {
  const std::string text = read_file(path);
  return checksum_of(std::as_bytes(std::span(text)));
}

std::vector<fs::path> complete_checkpoints(const fs::path& folder) {
  std::vector<std::tuple<int, std::int64_t, fs::path>> found;
  if (!is_folder(folder)) return {};
  for (const std::string& name : names_in(folder)) {
    const fs::path path = folder / name;
    if (!is_folder_name(name) || !is_there(path / kManifest)) continue;
    const RunPlace place = manifest_in(path).place;
    found.emplace_back(place.epoch, place.batch, path);
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (const auto& [epoch, batch, path] : found) paths.push_back(path);
  return paths;
}

Seconds time_for(std::int64_t bytes) {
  constexpr double kSlowestBytes = 1e6;
  constexpr double kMostBytes = 1e14;  // a damaged manifest may say anything
  return Seconds(std::clamp(static_cast<double>(bytes), 0.0, kMostBytes) / kSlowestBytes);
}

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
  return disk.within(limit + time_for(bytes), what, [path] {
    return is_pytorch(path) ? read_pytorch(path) : read_tensors(path).tensors;
  });
}

void require_finite(const State& tensors, const fs::path& file) {
  for (const auto& [name, tensor] : tensors) {
    require(!tensor.is_floating_point() || at::isfinite(tensor).all().item<bool>(),
            "{}: tensor '{}' has values that are not finite (NaN or infinity): the model of this "
            "file has diverged; take another one",
            file.string(), name);
  }
}

RunState read_checkpoint(const fs::path& checkpoint, const World& world) {
  const Manifest manifest = read_manifest(checkpoint);
  const bool same = manifest.nodes == ranks_per_node(world.topology());
  const int node = same ? world.node() : 0;
  const int rank = same ? world.rank() : 0;
  return {.place = manifest.place,
          .batches = manifest.batches,
          .model = manifest.model,
          .strategy = manifest.strategy,
          .nodes = manifest.nodes,
          .rank = rank,
          .common = read_part(checkpoint, manifest, node_part(node)),
          .own = read_part(checkpoint, manifest, rank_part(rank))};
}

}  // namespace daso
