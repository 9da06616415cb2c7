// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/seconds.h"
#include "daso/comm/world.h"
#include "daso/tensor/state.h"

// A checkpoint is a folder:
//   node-0.safetensors ...   what the ranks of a node hold in common: parameters, optimizer
//   rank-0.safetensors ...   what each rank has of its own: buffers, strategy
//   manifest.json            written last: the place in the run, and size and checksum of each part
// A folder without a manifest is none.
namespace daso {

struct RunPlace {
  int epoch = 0;           // the step to go on with
  std::int64_t batch = 0;  // 0: at the beginning of an epoch
  std::int64_t step = 0;   // counted as if all epochs had had as many batches as this one
  bool operator==(const RunPlace&) const = default;
};

struct RunState {
  RunPlace place;
  std::int64_t batches = 0;  // of an epoch; 0: an older checkpoint does not say
  std::string model;         // name of its network
  std::string strategy;      // empty: an older checkpoint does not say
  bool other_ranks = false;  // it was written by another number of ranks or nodes
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

// All tensors of a safetensors file. Throws ConfigError naming it. A large one has more time.
State read_model(const std::filesystem::path& path, Seconds limit = kReadLimit);

// What a rank goes on with. Another number of ranks or nodes may go on from the beginning of an
// epoch, when all ranks are equal (but for `none` and `node`); `own` then is what rank 0 had,
// without its part of an exchange.
RunState read_checkpoint(const std::filesystem::path& checkpoint, const World& world);

}  // namespace daso
