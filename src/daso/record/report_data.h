// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// A run as its folder tells it, for a report.
namespace daso {

// NOLINTNEXTLINE(bugprone-exception-escape): the JSON library's moves do not throw.
struct ReportedRun {
  std::filesystem::path folder;
  std::string label;  // tells it from the others of the report; short
  bool finished = false;
  nlohmann::json figures;               // summary.json, or as much of it as is known so far
  std::vector<nlohmann::json> records;  // metrics.jsonl, whole lines only
  std::vector<std::pair<std::string, std::string>> configuration;
};

// All runs of a report, labelled. Throws ConfigError for a folder that is no run.
std::vector<ReportedRun> read_runs(const std::vector<std::filesystem::path>& folders);

// A field of an object if it is there and a finite number.
std::optional<double> number_in(const nlohmann::json& object, const char* field);

// A record names a rank that was late by more than summary.json's `late` forgives.
bool was_late(const nlohmann::json& record);

}  // namespace daso
