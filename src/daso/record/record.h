// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "daso/comm/world.h"
#include "daso/record/progress.h"
#include "daso/record/summary.h"
#include "daso/strategy/strategy.h"

// What is known of a run, while it goes on and afterwards. The parts, from the clock to the page:
//
//   Timeline   (base/timeline.h) counts the seconds of each kind of time, once.
//   Meter      turns these, the strategy's costs and the clock into a Progress after a step and
//              into a Summary at the end.
//   StepTimes  (lateness.h) finds out which rank the others wait for.
//   kMetrics   (metrics.h) names what is recorded of a Progress: one row for each figure.
//   RunFiles   writes them: metrics.jsonl, TensorBoard's file, status.json, summary.json.
//   Trace      makes one trace.json of all ranks' timelines.
//   Report     (report.h) reads a run's folder back, and makes report.html of it.
//
// Record is all of it for a training loop of one's own. The trainer (run/) has the same parts in
// its own hands, since it also stops, resumes and takes turns with others.
namespace daso {

struct RecordOptions {
  std::filesystem::path folder;     // made if it is not there
  int epochs = 1;                   // that the run will have
  std::int64_t batch_size = 1;      // examples of a step, on each rank
  std::string strategy = "daso";    // these three are names for people
  std::string model = "own model";  //
  std::string data = "own data";    //
  std::int64_t trace_steps = 200;   // of this process, in trace.json; 0: it is not written
  std::int64_t first_step = 0;      // of this process: later than 0 where a run goes on
};

// The files of a run, written by rank 0, from a training loop of one's own:
//
//   daso::Record record(world, *strategy, {.folder = "runs/mine", .epochs = 20, .batch_size = 64});
//   for each epoch
//     for each batch
//       ...
//       record.step(info, loss, strategy->after_step(info));
//     record.end_epoch(strategy->mean_loss(epoch, mean));
//   record.finish();
//
// leaves what `daso train` leaves: metrics.jsonl, TensorBoard's file, status.json (`daso top`
// follows it), trace.json, summary.json and report.html. All ranks make theirs together and call it
// alike, as they tell each other who was late. What else takes the loop's time can be counted, too:
//
//   const daso::TimedSpan span(world.timeline(), daso::Track::kData, "data", info.step);
//
// Once it is made, no disk that is full ends a run. A rank that is gone throws PeerError.
class Record {
 public:
  // World and strategy are borrowed. Throws ConfigError if the folder cannot be written.
  Record(World& world, const Strategy& strategy, const RecordOptions& options);
  ~Record();

  // After every step, with this rank's loss and what the strategy did.
  void step(const StepInfo& info, double loss, const StrategyEvents& events = {});
  // After the epoch's last step, with the mean training loss of all ranks and what an evaluation
  // found, if there was one.
  void end_epoch(double train_loss, const std::optional<Score>& test = std::nullopt);
  // After the last epoch, or earlier. What rank 0 gets is in summary.json.
  Summary finish();

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace daso
