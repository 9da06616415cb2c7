// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/world.h"
#include "daso/tensor/state.h"

// A checkpoint is a run written down (run.h), as a folder:
//   node-0.safetensors ...   what the ranks of a node hold in common: parameters, optimizer
//   rank-0.safetensors ...   what each rank has of its own: buffers, strategy
//   manifest.json            written last: the place in the run, and size and checksum of each part
// A folder without a manifest is none. checkpoint_writer.h writes it, resume.h chooses one.
namespace daso {

struct RunPlace {
  int epoch = 0;           // the step to go on with
  std::int64_t batch = 0;  // 0: at the beginning of an epoch
  std::int64_t step = 0;   // counted as if all epochs had had as many batches as this one
  bool operator==(const RunPlace&) const = default;
};

// A run as one rank has it, where the session that trains it stands still.
struct RunState {
  RunPlace place;
  std::int64_t batches = 0;  // of an epoch; 0: an older checkpoint does not say
  std::string model;         // name of its network
  std::string strategy;      // empty: an older checkpoint does not say
  std::vector<int> nodes;    // ranks of each node of the world that it is of
  int rank = 0;              // in that world, whose own it holds
  bool equal = false;        // all nodes have the same at this place; not written down
  State common;              // equal on the ranks of a node
  State own;
};

// What follows throws Error where the disk does not answer within the limit.
inline constexpr Seconds kReadLimit{300};

// The complete checkpoint in a folder of checkpoints that is farthest in its run. Throws
// ConfigError for a manifest that is damaged.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder,
                                                       Seconds limit = kReadLimit);

struct Manifest {
  RunPlace place;
  std::int64_t batches = 0;
  std::string model;
  std::string strategy;
  std::vector<int> nodes;  // ranks of each node
  struct Part {
    std::string name;
    std::int64_t bytes = 0;
    std::string checksum;
  };
  std::vector<Part> parts;
};
// Throws ConfigError naming the file.
Manifest read_manifest(const std::filesystem::path& checkpoint, Seconds limit = kReadLimit);

// A part, checked against the manifest. Throws ConfigError naming a file that is damaged. A large
// one has more time.
State read_part(const std::filesystem::path& checkpoint, const Manifest& manifest,
                const std::string& name, Seconds limit = kReadLimit);

// All tensors of a safetensors file, or of one that torch.save has written. Throws ConfigError
// naming it.
State read_model(const std::filesystem::path& path, Seconds limit = kReadLimit);
// Throws ConfigError if one of the tensors, which are of this file, has a value that is not finite.
void require_finite(const State& tensors, const std::filesystem::path& file);

// What a rank of a world goes on with: what it had itself where the world has as many ranks and
// nodes as that of the checkpoint, else what rank 0 had.
RunState read_checkpoint(const std::filesystem::path& checkpoint, const World& world);

// For those that write it. Nothing below has a limit: callers are on a thread of their own
// (base/disk.h).
inline constexpr const char* kManifest = "manifest.json";
std::string checkpoint_name(std::int64_t step);
std::string node_part(int node);
std::string rank_part(int rank);
std::vector<int> ranks_per_node(const Topology& topology);
std::uint64_t checksum_of_file(const std::filesystem::path& path);
// In the order of the run. Their names do not tell it: a run that has gone on with other ranks, or
// another batch size, counts its steps anew.
std::vector<std::filesystem::path> complete_checkpoints(const std::filesystem::path& folder);
// What a disk may take for so many bytes. One that does less in a second is not slow, it hangs.
Seconds time_for(std::int64_t bytes);

}  // namespace daso
