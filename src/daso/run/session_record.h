// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "daso/base/gpu_load.h"
#include "daso/comm/world.h"
#include "daso/record/meter.h"
#include "daso/record/trace.h"
#include "daso/run/control.h"
#include "daso/run/run.h"

namespace daso {

// What people see of a session: its meter and its trace, and out of these, with what the run counts
// from its beginning (Tally), progress and summary. Times are of this process and this session.
//
// A session has turns: other runs may train in between, and that time does not count.
class SessionRecord {
 public:
  // All is borrowed. All ranks make theirs together.
  SessionRecord(World& world, const Run& run, const Strategy& strategy);

  void begin_turn() { meter_.start(); }
  void end_turn() { meter_.stop(); }
  void begin_step(std::int64_t step);  // asks the timeline to record the steps of the trace
  void end_step() { meter_.step(); }
  void count_samples(double per_step) { meter_.count_samples(per_step); }
  StepSeconds step_seconds() { return meter_.step_seconds(); }  // since the last call
  void follow(const Agreed& agreed) { meter_.hear(agreed.late, agreed.worked); }

  // On a device the loss is as old as the last step that is recorded in metrics.jsonl: to read it
  // in every step would make the device wait for its next one.
  Progress progress(const StepInfo& info, const RunPlan& plan);
  // All ranks call it together, between turns. Writes the trace.
  Summary summary();

 private:
  std::int64_t bad_images() const;  // of all ranks

  World& world_;
  const Run& run_;
  Meter meter_;
  std::optional<Trace> trace_;
  RunningMean loss_;                 // of the epoch so far, as last read
  std::optional<GpuLoad> gpu_load_;  // of rank 0's GPU; none on the CPU
};

}  // namespace daso
