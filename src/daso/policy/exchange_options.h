// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "daso/kernels/wire.h"

namespace daso {

enum class MergeRule { kCorrected, kPaper };
enum class ExchangeKind { kSharded, kRotating };

// What --merge and --exchange take; none if nothing has this name.
std::string_view name_of(MergeRule rule);
std::string_view name_of(ExchangeKind kind);
std::optional<MergeRule> find_merge_rule(std::string_view name);
std::optional<ExchangeKind> find_exchange_kind(std::string_view name);

// What travels between nodes, and what becomes of it.
struct ExchangeOptions {
  ExchangeKind kind = ExchangeKind::kSharded;
  Wire wire = Wire::kInt8;  // other than fp32: sharded only
  MergeRule merge = MergeRule::kCorrected;
  std::uint64_t seed = 1;  // of wires that round at random; the same on all ranks
  bool operator==(const ExchangeOptions&) const = default;
};

// Throws ConfigError.
void validate(const ExchangeOptions& options);

// The rank that leads its node in an exchange with ExchangeKind::kRotating (algorithm.md 6), as
// local ranks, one per node; ranks_per_node[n] is the number of ranks of node n. All ranks of the
// largest node lead before one does again; the ranks of a smaller node come round more often.
std::vector<int> leaders_of(std::int64_t exchange, const std::vector<int>& ranks_per_node);

}  // namespace daso
