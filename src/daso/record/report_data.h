// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daso/record/membership.h"
#include "daso/record/report.h"

// A run as its folder tells it, for a report; or runs that differ by their seeds alone, as one.
namespace daso {

// NOLINTNEXTLINE(bugprone-exception-escape): the JSON library's moves do not throw.
struct ReportedRun {
  std::vector<std::filesystem::path> folders;  // one for each seed
  std::string label;                           // tells it from the others of the report; short
  bool finished = false;
  nlohmann::json figures;  // summary.json, or as much of it as is known so far
  // metrics.jsonl, whole lines only. Times of a run that was resumed are laid end to end, and
  // train_loss is the mean of a window, not of the epoch so far.
  std::vector<nlohmann::json> records;
  std::vector<std::pair<std::string, std::string>> configuration;
  std::string model;                   // empty: not known, as is the next
  std::string data;                    //
  std::optional<double> last;          // when its status was written last, in seconds since 1970
  std::vector<ViewRecord> views = {};  // of its last job, where nodes came and went
};

// All runs of a report, labelled, those of several seeds put together (report_seeds.h). Throws
// ConfigError for a folder that is no run.
std::vector<ReportedRun> read_runs(const std::vector<LabelledRun>& runs);

// What the configuration has for a key; null where it has nothing.
const std::string* value_in(const ReportedRun& run, const std::string& key);

// A field of an object if it is there and a finite number.
std::optional<double> number_in(const nlohmann::json& object, const char* field);

// A record names a rank that was late by more than summary.json's `late` forgives.
bool was_late(const nlohmann::json& record);

}  // namespace daso
