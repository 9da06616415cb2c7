// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/exchange_options.h"

#include <algorithm>

#include "daso/base/error.h"

namespace daso {
namespace {

template <typename T>
std::optional<T> find_among(std::string_view name, std::initializer_list<T> all) {
  for (const T one : all) {
    if (name_of(one) == name) return one;
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(MergeRule rule) {
  return rule == MergeRule::kCorrected ? "corrected" : "paper";
}

std::string_view name_of(ExchangeKind kind) {
  return kind == ExchangeKind::kSharded ? "sharded" : "rotating";
}

std::optional<MergeRule> find_merge_rule(std::string_view name) {
  return find_among(name, {MergeRule::kCorrected, MergeRule::kPaper});
}

std::optional<ExchangeKind> find_exchange_kind(std::string_view name) {
  return find_among(name, {ExchangeKind::kSharded, ExchangeKind::kRotating});
}

void validate(const ExchangeOptions& options) {
  require(options.kind == ExchangeKind::kSharded || options.wire == Wire::kFp32,
          "the wire {} needs the exchange sharded: rotating leaders would lose what rounding "
          "leaves over; use sharded, or the wire fp32",
          name_of(options.wire));
}

std::vector<int> leaders_of(std::int64_t exchange, const std::vector<int>& ranks_per_node) {
  DASO_ASSERT(exchange >= 0 && !ranks_per_node.empty());
  const int largest = *std::max_element(ranks_per_node.begin(), ranks_per_node.end());
  const auto round = static_cast<int>(exchange % largest);
  std::vector<int> leaders;
  leaders.reserve(ranks_per_node.size());
  for (const int ranks : ranks_per_node) leaders.push_back(round % ranks);
  return leaders;
}

}  // namespace daso
