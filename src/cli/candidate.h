// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "daso/run/settings.h"

// The candidates of `daso compare`: strategies, each with flags of its own.
namespace daso::cli {

struct Candidate {
  std::string label;  // as asked for: "daso:skip=8:wire=int4"
  std::string strategy;
  std::vector<std::pair<std::string, std::string>> flags;  // its own, by name without dashes
  std::string folder;  // the label, as a folder may be called; no other candidate has it
};

// "sync,daso:paper,daso:skip=8:wire=int4". Throws ConfigError naming the flag.
std::vector<Candidate> parse_candidates(const std::string& flag, const std::string& text);

// Of its runs: the job's, less what the strategy has no use for, so that one set of flags serves
// all, and then its own. Throws ConfigError for a value that a flag does not take.
Settings settings_of(const Candidate& candidate, const Settings& job);

// Strategy `node`, the bound that all are measured against.
Candidate bound();

}  // namespace daso::cli
