// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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

}  // namespace daso
