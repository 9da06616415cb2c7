// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daso/base/disk.h"
#include "daso/base/worker.h"
#include "daso/comm/world.h"
#include "daso/model/state.h"

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

// Writes checkpoints in the background while training goes on. One that cannot be written (a disk
// that is full, or hangs) leaves the one before as it is, and the run goes on with a warning.
class CheckpointWriter {
 public:
  // The world is borrowed. All ranks make theirs together.
  CheckpointWriter(World& world, std::filesystem::path folder, int keep);
  // One that is being written, after an error, is left to itself after a second.
  ~CheckpointWriter();

  // Takes the state over and returns; waits if the one before is not written yet. All ranks call it
  // at the same step.
  void write(RunState state);
  // Waits until all is on disk, or the disk's time is over. Throws Error if the last one could not
  // be written.
  void finish();

 private:
  struct Part {
    std::string name;
    std::int64_t bytes = 0;
    std::uint64_t checksum = 0;
  };
  void write_all(const std::shared_ptr<const RunState>& state);
  void begin(const std::filesystem::path& folder);
  void write_own(const std::shared_ptr<const RunState>& state, Seconds limit,
                 std::vector<Part>& own);
  std::vector<Part> collect(const std::vector<Part>& own, Seconds limit);
  void publish(const RunState& state, const std::vector<Part>& parts);
  void take_back(const std::filesystem::path& folder, const std::vector<Part>& own);
  void remove_old();
  Seconds moment() const;

  World& world_;
  const std::filesystem::path folder_;
  const int keep_;
  Communicator& ranks_;
  std::string failure_;  // of the last one; empty: none
  Disk disk_;            // of the folder
  Worker worker_;        // last: it uses all of the above
};

// The complete checkpoint in a folder of checkpoints that is farthest in its run. Throws
// ConfigError for a manifest that is damaged.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder);

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
Manifest read_manifest(const std::filesystem::path& checkpoint);

// A part, checked against the manifest. Throws ConfigError naming a file that is damaged.
State read_part(const std::filesystem::path& checkpoint, const Manifest& manifest,
                const std::string& name);

// What a rank goes on with. Another number of ranks or nodes may go on from the beginning of an
// epoch, when all ranks are equal; `own` then is what rank 0 had, without its part of an exchange.
RunState read_checkpoint(const std::filesystem::path& checkpoint, const World& world);

}  // namespace daso
