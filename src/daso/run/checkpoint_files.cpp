// SPDX-License-Identifier: Apache-2.0
#include "daso/run/checkpoint_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <tuple>

#include "daso/base/checksum.h"
#include "daso/base/error.h"

namespace daso {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  require(file.good() || file.eof(), "{} cannot be read: {}", path.string(), std::strerror(errno));
  return text;
}

// What people keep beside checkpoints, under other names, is theirs.
bool is_folder_name(const std::string& name) {
  constexpr std::string_view kBegin = "step-";
  return name.size() > kBegin.size() && name.starts_with(kBegin) &&
         name.find_first_not_of("0123456789", kBegin.size()) == std::string::npos;
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

Manifest manifest_in(const fs::path& checkpoint) {
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
  } catch (const json::parse_error& error) {
    throw ConfigError(
        fmt::format("{} is damaged: it is no JSON from byte {} on", path.string(), error.byte));
  } catch (const json::exception&) {
    throw ConfigError(
        fmt::format("{} is damaged: an entry is missing or not of its kind", path.string()));
  }
}

std::uint64_t checksum_of_file(const fs::path& path) {
  const std::string text = read_file(path);
  return checksum_of(std::as_bytes(std::span(text)));
}

std::vector<fs::path> complete_checkpoints(const fs::path& folder) {
  std::vector<std::tuple<int, std::int64_t, fs::path>> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& path = entry.path();
    if (!is_folder_name(path.filename().string()) || !fs::exists(path / kManifest)) continue;
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

}  // namespace daso
