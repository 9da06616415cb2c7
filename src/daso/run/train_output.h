// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daso/comm/world.h"
#include "daso/record/progress.h"
#include "daso/record/summary.h"
#include "daso/run/course.h"
#include "daso/run/train_report.h"

namespace daso {

// Settings by their names, as text.
using Values = std::vector<std::pair<std::string, std::string>>;

// A run as it is, by flags: what --config takes to do it again.
Values resolved_configuration(const World& world, const Course& course);

// Makes settings.out. Throws ConfigError where a run that is not to be resumed would overwrite
// another one, and where ranks have other settings than rank 0. All ranks call it together, before
// the course begins.
void prepare_output(World& world, const Run& run);

struct OutputOptions {
  bool lines = true;  // on standard output: how it begins, a bar or a line per epoch, how it ends
  std::string note;   // for people, among the first lines; empty: nothing
  std::string go_on;  // the command that goes on with a run that was stopped; empty: the same one
};

// What rank 0 shows of a run while it is trained, and keeps in its folder: config.toml, and all
// that RunFiles writes. Where nodes come and go, each session has one, of which the first says what
// the run is and the others who has come and gone.
class TrainOutput {
 public:
  // World and course are borrowed.
  TrainOutput(const World& world, const Course& course, const OutputOptions& options);
  TrainOutput(const TrainOutput&) = delete;
  TrainOutput& operator=(const TrainOutput&) = delete;
  ~TrainOutput();

  void operator()(const Progress& now);  // after every step
  void end(Summary& summary);            // adds the views
  void leave();  // instead: the run goes on in the next session, here or elsewhere

 private:
  class Configuration;

  const Run& run_;
  const Course& course_;
  const OutputOptions options_;
  std::unique_ptr<Configuration> configuration_;
  std::optional<TrainReport> report_;
};

}  // namespace daso
