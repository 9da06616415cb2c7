// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daso/comm/topology.h"
#include "daso/run/checkpoint.h"

// What lies where in a checkpoint, for those that write and read it. Nothing here has a limit:
// callers are on a thread of their own (base/disk.h).
namespace daso {

inline constexpr const char* kManifest = "manifest.json";

std::string checkpoint_name(std::int64_t step);
std::string node_part(int node);
std::string rank_part(int rank);

std::vector<int> ranks_per_node(const Topology& topology);

// Throw ConfigError naming the file.
Manifest manifest_in(const std::filesystem::path& checkpoint);
std::uint64_t checksum_of_file(const std::filesystem::path& path);

// In the order of the run. Their names do not tell it: a run that has gone on with other ranks, or
// another batch size, counts its steps anew.
std::vector<std::filesystem::path> complete_checkpoints(const std::filesystem::path& folder);

// What a disk may take for so many bytes. One that does less in a second is not slow, it hangs.
Seconds time_for(std::int64_t bytes);

}  // namespace daso
