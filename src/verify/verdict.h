// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "daso/comm/world.h"
#include "verify/golden_case.h"

namespace daso::verify {

// Something that came out other than a golden case says.
struct Finding {
  std::int64_t step = 0;  // of the run, round or epoch; of several findings the earliest counts
  int rank = 0;
  std::string text;               // for people, on one line
  nlohmann::ordered_json detail;  // the same for programs
};

// Whether a golden case holds.
struct Verdict {
  std::optional<Finding> first;  // none: it holds
  double largest = 0;            // difference of a parameter to the expected one
  double bound = 0;              // what a lossy wire may add to it, by the end of the run

  bool holds() const { return !first; }
  // Keeps the finding if it is earlier than what was found so far; of equal steps the first told.
  void add(Finding finding);
  // What another rank has found.
  void add(const Verdict& other);
};

// For the way between ranks and processes.
std::string text_of(const Verdict& verdict);
Verdict verdict_in(const std::string& text);

// Golden cases that need no ranks, run through the functions that training uses.
Verdict verify_case(const ScheduleCase& golden);
Verdict verify_case(const PeriodCase& golden);
// Bit for bit, on every instruction set that this processor has.
Verdict verify_case(const WireCase& golden);

// Trains a golden case with the strategy `daso` as one rank of a world that has its ranks on its
// nodes, comparing after every step. Returns what all ranks have found together, the same on all.
Verdict verify_training(World& world, const TrainingCase& training, ExchangeKind exchange,
                        Wire wire, at::Device device);

}  // namespace daso::verify
