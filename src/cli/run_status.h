// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daso/base/seconds.h"
#include "daso/comm/world.h"
#include "daso/run/trainer.h"

namespace daso::cli {

// RUN/status.json: where a run is, for `daso top`; written anew about once a second.
class RunStatus {
 public:
  // All is borrowed.
  RunStatus(const World& world, const Settings& options);

  void update(const Progress& now, double seconds_left);
  // The last word: finished, or stopped by a signal.
  void end(const Summary& summary);

 private:
  void write(const char* state);

  const World& world_;
  const Settings& options_;
  Progress now_;
  double seconds_left_ = 0;
  std::optional<double> accuracy_;
  std::optional<Clock::time_point> written_;
};

}  // namespace daso::cli
