// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daso/policy/schedule.h"
#include "daso/strategy/strategy.h"

// `daso verify` asks whether this library computes what docs/algorithm.md says. The judge is
// another program, which has computed golden cases (algorithm.md 8): what goes in and what must
// come out.
//
//   read_golden            the cases of a file, every field checked (checked_json.h)
//   verify_case            cases that need no ranks, through the functions that training uses
//   verify_training        trains a case on the ranks of a world, comparing after every step
//                          (training_check.h), within what a lossy wire may add
//   on_processes, on_threads, GivenWorld   where those ranks come from (verify_ranks.h)
//
// Each ends in a Verdict (verdict.h): it holds, or the first thing that came out differently.
namespace daso::verify {

// Something that a step of a golden case does, in the words of its file.
struct GoldenEvent {
  std::int64_t step = 0;
  std::string what;  // blocking, merge, start or exchange; the field is called "do"
  std::optional<std::int64_t> exchange;  // its number
  std::optional<std::vector<int>> leaders;
  std::optional<std::int64_t> staleness;
  bool operator==(const GoldenEvent&) const = default;
};

// What a step has done, in order.
std::vector<GoldenEvent> events_of(std::int64_t step, std::optional<Phase> phase,
                                   const StrategyEvents& done, const std::vector<int>& nodes);

nlohmann::ordered_json json_of(const GoldenEvent& event);

// Training on a quadratic function of the parameters, one for each rank.
struct TrainingCase {
  std::vector<int> nodes;  // ranks of each
  std::vector<double> start;
  std::vector<double> curvature;
  std::vector<std::vector<double>> targets;  // by rank
  double rate = 0;
  double momentum = 0;
  double weight_decay = 0;
  MergeRule merge = MergeRule::kPaper;
  std::int64_t batches = 1;
  ScheduleOptions schedule;  // listed
  std::vector<GoldenEvent> events;
  std::vector<std::vector<std::vector<double>>> parameters;  // by step, then node
  double tolerance = 0;

  int ranks() const;
  int epochs() const { return static_cast<int>(schedule.listed.size()); }
  std::int64_t steps() const { return epochs() * batches; }
};

// The plateau schedule: a whole trajectory.
struct ScheduleCase {
  ScheduleOptions schedule;
  std::vector<double> losses;  // by epoch
  std::vector<EpochPlan> plans;
};

// The rate schedule: where rounds start.
struct PeriodCase {
  struct Start {
    std::int64_t step = 0;
    std::int64_t skip = 0;
    bool operator==(const Start&) const = default;
  };
  ScheduleOptions schedule;
  std::int64_t batches = 1;
  std::vector<double> rates;  // by step
  std::vector<Start> starts;
};

// Exchanges on the int8 wire, one after the other: all values exact.
struct WireCase {
  struct Sent {
    std::vector<float> difference;
    std::vector<int> q;
    std::vector<float> scales;  // by block
  };
  struct Round {
    std::vector<Sent> nodes;
    std::vector<float> mean;  // before the residual is added
    std::vector<int> back_q;
    std::vector<float> back_scales;
    std::vector<float> back;
    std::vector<float> residual;
  };
  std::vector<int> nodes;
  std::size_t elements = 0;
  std::vector<Round> rounds;
};

struct GoldenCase {
  std::string file;
  std::size_t index = 0;  // in its file
  std::string name;
  std::variant<TrainingCase, ScheduleCase, PeriodCase, WireCase> what;
};

// The cases of a file, which holds one or a list of them. Throws ConfigError naming file, place and
// reason where it cannot be understood.
std::vector<GoldenCase> read_golden(const std::string& path);

}  // namespace daso::verify
