// SPDX-License-Identifier: Apache-2.0
#include "daso/policy/exchange_options.h"

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
          "the wire {} needs the exchange sharded: rotating speakers would lose what rounding "
          "leaves over; use sharded, or the wire fp32",
          name_of(options.wire));
}

}  // namespace daso
