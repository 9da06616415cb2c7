// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daso/base/disk.h"
#include "daso/base/worker.h"
#include "daso/comm/world.h"
#include "daso/run/checkpoint.h"

namespace daso {

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
  // Waits until all is on disk, or the disk's time is over.
  void settle();
  // The same; throws Error if the last one could not be written.
  void finish();
  // The last one did not come to its end, since ranks were lost. To be asked after settle().
  bool broken_off() const { return broken_off_; }

 private:
  struct Part {
    std::string name;
    std::int64_t bytes = 0;
    std::uint64_t checksum = 0;
  };
  void write_all(const std::shared_ptr<const RunState>& state);
  void remove(const std::filesystem::path& folder);
  void write_own(const std::shared_ptr<const RunState>& state, Seconds limit,
                 std::vector<Part>& own);
  std::vector<Part> collect(const std::vector<Part>& own, Seconds limit);
  static void require_all(const std::vector<Part>& parts, const std::filesystem::path& folder);
  void publish(const RunState& state, const std::vector<Part>& parts);
  void take_back(const std::filesystem::path& folder, const std::vector<Part>& own);
  void remove_old();
  Seconds quick_limit() const;

  World& world_;
  const std::filesystem::path folder_;
  const int keep_;
  Communicator& ranks_;
  std::string failure_;  // of the last one; empty: none
  bool broken_off_ = false;
  Disk disk_;            // of the folder
  Worker worker_;        // last: it uses all of the above
};

}  // namespace daso
